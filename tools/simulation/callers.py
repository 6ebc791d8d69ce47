"""Conductors that ask for hosts, give up and ask again; and users who delete their instances."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
import itertools
import math

from scheduler.nova_service.first_scheduler import LOOKBACK
from scheduler.request.instance_state import InstanceState
from tools.simulation import product
from tools.simulation.broker import Broker, Message, Reply
from tools.simulation.placement import Placement, Rows
from tools.simulation.plan import Job
from tools.simulation.runtime import Runtime, Task

# Seconds from the end of a call without hosts until its conductor has given its instances up.
BURY = 0.5

# Seconds for which a reply may come after its caller has left: that long it is not looked at again.
LATE = 10.0

# Seconds that a conductor takes for each instance of an answer, at most: in truth it writes to two databases.
TAKE = 0.2

# Seconds from an answer until a compute has taken its instance.
LAND = 1.0

# Seconds for which the disk of an instance that is moved is copied: longer than any caller waits. Also those
# after which an operator looks at an instance whose conductor died while it asked for a host.
COPY = 2500.0


@dataclass
class Instance:
    """What nova knows of an instance.

    Attributes:
        source: What it held before (an evacuation); not written by Berth.
        host: The node that a caller was told while it waited; None if there is none.
        late: Nodes in replies that reached a caller which did not wait any more, or may have.
        deleted: The user has deleted it.
        buried: Its conductor has given it up.
        copied: If it is moved: its disk is on the new host.
        landed: The databases have it on its host.
        group: The number of its server group; 0 for none.
    """

    number: int
    uuid: str
    source: Rows = field(default_factory=dict)
    host: str | None = None
    late: set[str] = field(default_factory=set)
    deleted: bool = False
    buried: bool = False
    copied: bool = False
    landed: bool = False
    group: int = 0

    @property
    def name(self) -> str:
        """For the trace."""
        return f"i{self.number}"

    @property
    def state(self) -> InstanceState:
        """What nova's databases say of it."""
        if self.deleted:
            return InstanceState.DELETED
        if self.host is not None and (self.copied or not self.source):
            return InstanceState.PLACED
        if self.buried:
            return InstanceState.GIVEN_UP
        return InstanceState.MOVING if self.source else InstanceState.WAITING


@dataclass
class Call:
    """A call that a conductor waits for.

    Attributes:
        settled: It was answered, or given up.
        ended: When that was, or its conductor ended.
        answered: A reply came in time.
        neglected: It was given up as nothing was heard, although a process served it that could have said so.
        orphaned: Its conductor is gone.
        failure: The error that it was answered with; "" for none.
    """

    message: Message | None = None
    instances: list[Instance] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    waiters: list[Task] = field(default_factory=list)
    settled: bool = False
    ended: float = math.inf
    answered: bool = False
    neglected: bool = False
    orphaned: bool = False
    failure: str = ""


class Callers:
    """All conductors, and what they were told.

    Args:
        runtime: For the clock.
        broker: Where calls go.
        placement: For what nova itself writes there.
        timeouts: Seconds without a sign of life, and in all, after which callers give up.
        told: Called with a text for each event.
    """

    def __init__(
        self,
        runtime: Runtime,
        broker: Broker,
        placement: Placement,
        timeouts: tuple[float, float],
        told: Callable[[str], None],
    ) -> None:
        self.calls: list[Call] = []
        self.instances: dict[int, Instance] = {}
        self._buried: list[tuple[float, str]] = []
        self._runtime = runtime
        self._broker = broker
        self._placement = placement
        self._silence, self._total = timeouts
        self._told = told
        self._process = runtime.process("conductor")
        self._queue = ""
        self._numbers = itertools.count(1)
        self.open_reply_queue()

    def open_reply_queue(self) -> None:
        """Start to receive replies in a new queue."""
        self._queue = f"reply-{next(self._numbers)}"
        self._broker.queues[self._queue] = self._receive

    def lose_reply_queue(self) -> None:
        """Let a conductor die: its calls get no reply any more. Its queue vanishes, or nobody reads it."""
        if self._queue.endswith(("1", "3", "5", "7", "9")):
            self._broker.queues[self._queue] = None
        else:
            self._broker.queues.pop(self._queue, None)
        for call in self.calls:
            if not call.settled and call.message is not None and call.message.reply_queue == self._queue:
                call.settled, call.orphaned, call.ended = True, True, self._runtime.clock
                self._runtime.wake_all(call.waiters)
        self._queue = ""

    def submit(self, job: Job) -> None:
        """Begin a job now."""
        self._runtime.spawn(self._process, "call", lambda: self._work(job))

    def note_possibly_told(self, replies: Iterable[Reply]) -> None:
        """Note the nodes in replies of which Berth cannot know whether they were received."""
        for reply in replies:
            if reply.result is not None:
                self._note_late(reply)

    def instance(self, uuid: str) -> Instance:
        """Return an instance by its uuid."""
        return next(each for each in self.instances.values() if each.uuid == uuid)

    def buried(self, after: float) -> list[tuple[float, str]]:
        """Return when builds were given up after some seconds of the clock, and their uuids, in order."""
        return [each for each in self._buried if each[0] > max(after, self._runtime.clock - LOOKBACK)]

    def places(self, group: int) -> dict[str, str]:
        """Return the nodes of the members of a server group as the databases have them; "" for none."""
        members = [each for each in self.instances.values() if group and each.group == group]
        return {each.uuid: each.host if each.host and each.landed else "" for each in members}

    def delete(self, number: int) -> None:
        """Let the user delete an instance now."""
        instance = self.instances.get(number)
        if instance is None or instance.deleted:
            return
        self._told(f"user deletes {instance.name}")
        instance.deleted = True
        instance.host = None
        self._delete_allocations(instance)

    # -- a job -----------------------------------------------------------------------------------------------

    def _work(self, job: Job) -> None:
        instances = [self.instances[number] for number in job.instances]
        ignored = next((node for each in instances for node in each.source), "")
        for number in range(1 + job.repeats):
            while not self._queue:
                self._runtime.sleep(1.0)
            for instance in instances:
                instance.buried = False
            call = self._call(job, instances, ignored)
            if not call.orphaned:
                self._runtime.sleep(BURY * self._runtime.random.random())
                self._bury([each for each in instances if each.host is None])
            if call.orphaned:
                self._runtime.after(COPY, self._give_up_moves, instances)
            if call.answered or call.orphaned:
                return
            self._told(f"conductor gives up {call.message.name} after {number} repetitions")

    def _bury(self, instances: list[Instance]) -> None:
        for instance in instances:
            instance.buried = True
            if not (instance.source or instance.deleted):
                self._buried.append((self._runtime.clock, instance.uuid))

    def _give_up_moves(self, instances: list[Instance]) -> None:
        """Let an operator reset the task states of instances that are not moved any more."""
        for instance in instances:
            instance.buried = bool(instance.source) and instance.host is None

    def _call(self, job: Job, instances: list[Instance], ignored: str) -> Call:
        call = Call(instances=instances)
        body = product.request(
            job.instances, f"h{int(ignored[-12:])}" if ignored else "", job.group, self.places(job.group)
        )
        queue = self._queue
        call.message = self._broker.publish(body, {"request_id": "req"}, queue, int(self._silence))
        self.calls.append(call)
        names = ", ".join(each.name for each in instances)
        self._told(f"conductor asks for {names} in {call.message.name}")
        if queue != self._queue:
            call.settled = call.orphaned = True
            return call
        self._wait(call, self._total if job.patience is None else job.patience)
        return call

    def _wait(self, call: Call, total: float) -> None:
        end = self._runtime.clock + total
        while not call.settled:
            left = min(self._silence, end - self._runtime.clock)
            if left <= 0 or not self._runtime.wait(call.waiters, left):
                call.neglected = left == self._silence and self._is_served(call)
                break
            while call.replies:
                reply = call.replies.pop(0)
                if not reply.is_heartbeat and not call.settled:
                    call.settled = call.answered = True
                    self._accept(call, reply)
        call.settled, call.ended = True, self._runtime.clock

    def _is_served(self, call: Call) -> bool:
        """Return whether a process has served a call for as long as its caller heard nothing, undisturbed."""
        since = self._runtime.clock - self._silence
        return (
            self._broker.up
            and self._broker.disturbed < since
            and any(
                process.alive and not process.was_paused and begun < since
                for process, begun in call.message.working.items()
            )
        )

    def _accept(self, call: Call, reply: Reply) -> None:
        self._told(f"conductor has the answer to {call.message.name}: {reply.failure or 'hosts'}")
        if reply.failure:
            call.failure = reply.failure
            return
        for instance, node in zip(call.instances, product.chosen(reply.result), strict=True):
            self._runtime.sleep(TAKE * self._runtime.random.random() if len(call.instances) > 1 else 0.0)
            if instance.deleted:
                # As conductors do when the build request is gone.
                self._delete_allocations(instance)
            else:
                instance.host = node
                self._runtime.after(COPY, setattr, instance, "copied", True)
                self._runtime.after(LAND, setattr, instance, "landed", True)

    def _receive(self, reply: Reply) -> None:
        """Take a reply out of the queue."""
        call = self._call_of(reply)
        if not call.settled:
            call.replies.append(reply)
            self._runtime.wake_all(call.waiters)
        elif not call.answered and not reply.is_heartbeat and not reply.failure:
            self._told(f"conductor drops the late answer to {call.message.name}")
            if self._runtime.clock < call.ended + LATE:
                self._note_late(reply)

    def _call_of(self, reply: Reply) -> Call:
        return next(each for each in self.calls if each.message.number == reply.message.number)

    def _note_late(self, reply: Reply) -> None:
        instances = self._call_of(reply).instances
        for instance, node in zip(instances, product.chosen(reply.result), strict=True):
            instance.late.add(node)

    def _delete_allocations(self, instance: Instance) -> None:
        answer = self._placement.delete(instance.uuid)
        self._told(f"nova deletes the allocations of {instance.name}: {answer.status}")
