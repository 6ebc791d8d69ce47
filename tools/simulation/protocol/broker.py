"""A model of the message broker for the model of the protocol, which does without AMQP."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
import itertools
import random
from typing import Any

from scheduler.rpc.transport import TOPIC
from tools.simulation.runtime import Process, Runtime, Task

RETURNED = "x-death"

# Seconds for which a call waits for its reply queue, and a reply for the broker.
MISSING_QUEUE = 60.0


@dataclass(eq=False)
class Message:
    """A call on its way. A copy in another queue has the same number, and the same lists and sets.

    Attributes:
        queue: The name of the queue that it is in, or was received from.
        headers: What the broker, or a scheduler that sent it on, has written on it.
        published: When it was put into the queue.
        replies: Times at which a reply was handed to the broker, or given up because its queue was gone.
        waits: For each time that it was processed: seconds from its start to its reply.
        working: The processes that have begun to process it and have not replied.
        receivers: The processes that it was delivered to, and that have not sent it on.
        abandoned: Times at which a process acknowledged it without a reply, since its caller waits no more.
    """

    number: int
    body: dict[str, Any]
    context: dict[str, Any]
    reply_queue: str
    client_timeout: int
    published: float = 0.0
    redelivered: bool = False
    acknowledged: bool = False
    replies: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    working: set[Process] = field(default_factory=set)
    abandoned: list[float] = field(default_factory=list)
    receivers: set[Process] = field(default_factory=set)
    queue: str = TOPIC
    headers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For the trace."""
        return f"m{self.number}"


@dataclass(frozen=True)
class Reply:
    """What a caller's queue receives: a result, the name of an error, or a sign of life (both None)."""

    message: Message
    result: Any = None
    failure: str | None = None

    @property
    def is_heartbeat(self) -> bool:
        """Whether it says only that the call is worked on."""
        return self.result is None and self.failure is None


class Broker:
    """The queue of all schedulers, those of calls that are sent on, and the reply queues of callers.

    Attributes:
        up: False while nobody can connect.
        largest: Bytes of the largest message.
        redelivery: Probability that a received message comes once more, as after a lost acknowledgement.
        loss: Probability that a reply gets lost after the broker has confirmed it.
        silence: Probability that a reply is taken and not confirmed.
        unsent: Probability that a call that is sent on is returned, or taken or lost without a confirmation.
        lifetimes: Seconds for which calls stay in the queues of those that are sent on.
        unconfirmed: The replies that were taken and not confirmed. Their callers may have received them.
        losses: How often each process has lost the channel on which it receives.
    """

    def __init__(self, runtime: Runtime, seed: object, told: Callable[[str], None]) -> None:
        self.up = True
        self.largest = 16 << 20
        self.redelivery = 0.0
        self.loss = 0.0
        self.silence = 0.0
        self.unsent = 0.0
        self.lifetimes: dict[str, float] = {}
        self.unconfirmed: list[Reply] = []
        self.losses: Counter[Process] = Counter()
        self._opened: dict[Process, float] = {}
        self.queues: dict[str, Callable[[Reply], None]] = {}
        self.messages: list[Message] = []
        self.random = random.Random(f"broker {seed}")
        self.runtime = runtime
        self.told = told
        self._queue: list[Message] = []
        self._unacknowledged: dict[Process, list[Message]] = {}
        self._consumers: list[Task] = []
        self._outage: list[Task] = []
        self._numbers = itertools.count(1)

    # -- for callers -----------------------------------------------------------------------------------------

    def publish(
        self, body: dict[str, Any], context: dict[str, Any], reply_queue: str, client_timeout: int
    ) -> Message:
        """Put a call into the queue. Blocks while the broker is away."""
        self.wait_until_up()
        message = Message(next(self._numbers), body, context, reply_queue, client_timeout, self.runtime.clock)
        self.messages.append(message)
        self._enqueue(message)
        return message

    @property
    def is_busy(self) -> bool:
        """Whether a call is in a queue, or was received and not acknowledged."""
        return bool(self._queue) or any(self._unacknowledged.values())

    @property
    def waiting(self) -> list[Message]:
        """The messages that no worker has received."""
        return list(self._queue)

    # -- for workers -----------------------------------------------------------------------------------------

    def receive(self, stopped: Callable[[], bool], queues: Collection[str] = frozenset()) -> Message | None:
        """Wait for the next message, of all schedulers or of ``queues``; None once ``stopped`` says so."""
        process = self.runtime.current.process
        self._opened.setdefault(process, self.runtime.clock)
        while not stopped():
            message = next((one for one in self._queue if one.queue == TOPIC or one.queue in queues), None)
            if self.up and message:
                self._queue.remove(message)
                self._deliver(message, process)
                return message
            self.runtime.wait(self._consumers)
        return None

    def wake_consumers(self) -> None:
        """Let those who wait for messages look again."""
        self.runtime.wake_all(self._consumers)

    def acknowledge(self, message: Message, process: Process) -> None:
        """Forget a message: it does not come again."""
        if message in self._unacknowledged.get(process, ()) and process.alive and self.up:
            self._unacknowledged[process].remove(message)
            message.acknowledged = True

    def give_back(self, message: Message, process: Process) -> None:
        """Deliver a message that a consumer does not want to another."""
        if message in self._unacknowledged.get(process, ()) and process.alive and self.up:
            self._unacknowledged[process].remove(message)
            if message.queue != TOPIC:
                self._move_back(message, "rejected")
                return
            message.redelivered = True
            self._enqueue(message)

    def disconnected(self, process: Process) -> None:
        """Deliver once more what a consumer received and did not acknowledge: its channel is gone."""
        self.losses[process] += 1
        self._opened[process] = self.runtime.clock
        for message in self._unacknowledged.pop(process, []):
            self.told(f"broker delivers {message.name} once more")
            message.redelivered = True
            self._enqueue(message)

    def send(self, reply: Reply) -> bool:
        """Put a reply into the queue of its caller; False if there is none."""
        handler = self.queues.get(reply.message.reply_queue)
        if handler is None:
            return False
        if not reply.is_heartbeat and self.random.random() < self.loss:
            self.told(f"broker loses the reply to {reply.message.name}")
            return True
        self.runtime.after(0.001 + 0.01 * self.random.random(), handler, reply)
        return True

    def confirms(self, reply: Reply) -> bool:
        """Return whether a reply is to be confirmed; otherwise it is put into its queue, or lost."""
        if not self.silence or self.random.random() >= self.silence:
            return True
        self.unconfirmed.append(reply)
        delivered = self.random.random() < 0.5 and self.send(reply)
        fate = "has" if delivered else "loses"
        self.told(f"broker does not confirm the reply to {reply.message.name}, and {fate} it")
        return False

    def opened(self, process: Process) -> float:
        """Return when the channel of a process was opened."""
        return self._opened[process]

    # -- outages ---------------------------------------------------------------------------------------------

    def wait_until_up(self) -> None:
        """Block while the broker is away."""
        while not self.up:
            self.runtime.wait(self._outage)

    def stop(self) -> None:
        """Break all connections."""
        self.up = False
        for process in list(self._unacknowledged):
            self.disconnected(process)

    def start(self) -> None:
        """Accept connections again."""
        if not self.up:
            self._opened = dict.fromkeys(self._opened, self.runtime.clock)
        self.up = True
        self.runtime.wake_all(self._outage)
        self.wake_consumers()

    def _enqueue(self, message: Message) -> None:
        if message in self._queue:  # else copies of it would beget copies
            return
        self._queue.append(message)
        if message.queue != TOPIC:
            self.runtime.after(self.lifetimes[message.queue], self._expire, message)
        self.wake_consumers()

    def _expire(self, message: Message) -> None:
        if message in self._queue:
            self._queue.remove(message)
            self._move_back(message, "expired")

    def _move_back(self, message: Message, reason: str) -> None:
        self.told(f"broker moves {message.name} back from {message.queue}: {reason}")
        headers = {**message.headers, RETURNED: [{"reason": reason, "count": 1}]}
        self._enqueue(replace(message, queue=TOPIC, headers=headers, redelivered=False))

    def _deliver(self, message: Message, process: Process) -> None:
        self._unacknowledged.setdefault(process, []).append(message)
        message.receivers.add(process)
        self.told(f"receives {message.name}{' (redelivered)' if message.redelivered else ''}")
        if self.random.random() < self.redelivery:
            self.runtime.after(5.0 * self.random.random(), self._again, message)

    def _again(self, message: Message) -> None:
        self.told(f"broker delivers {message.name} once more")
        message.redelivered = True
        self._enqueue(message)
