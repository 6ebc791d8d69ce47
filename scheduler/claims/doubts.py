"""What could not be settled on a bad day: a doubt for each consumer with an unknown state.

A write had no response and may come late, a release was not carried out, or a call was run before and the
writes of its earlier run may still come. Each doubt is looked at when no late write is expected any more, and
at growing intervals until it is settled, however long that takes. They are in memory alone. What a process
leaves that ends before is found by nova's state: moves by the audit, and builds here. Those that conductors
have given up are in doubt of the first scheduler, also if a nova-scheduler, a conductor with an alternate, or
a scheduler that was killed has claimed for them.

What nova says of the instance decides: what a placed instance holds is left alone, a waiting one is left to
its caller, one that nova does not know to the audit, and what others hold is released by the generation that
was read. One that is moved is left alone for as long as that lasts: its disk may be copied for hours, to a
host that another run has replied with.

A claim is written again only if a reply named it and nova has the instance on that host, or on its way there.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
import threading
from typing import NamedTuple

from oslo_log import log

from scheduler.bounds.background import BackgroundLoop, MakeLoop
from scheduler.logs import RateLimitedLogger
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.allocations import ConsumerAllocations, Owner
from scheduler.placement.answer import Resources
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.outcomes import UNAVAILABLE, Outcome
from scheduler.placement.write_policy import LATE_WRITE_WINDOW
from scheduler.placement.writes import Write
from scheduler.request.instance_state import InstanceState, ReadStates

LOG = log.getLogger(f"nova.{__name__}")

#: Seconds for which an instance is left alone while a caller waits to build it: longer than any caller does.
PATIENCE = 1900.0

#: Seconds between the looks at one doubt; the last one repeats.
DELAYS = (5.0, 20.0, 60.0, 300.0)

#: Seconds between two rounds with doubts, and without.
ROUND, IDLE = 1.0, 60.0

#: Doubts that are settled together, and seconds that this may take in Placement.
TOGETHER, TRY = 20, 5.0

#: Doubts that are kept. Further ones are logged, and found by an audit.
MOST = 100_000

#: Seconds between two lines of one kind.
REPORT_INTERVAL = 3600.0


@dataclass(frozen=True)
class Kept:
    """What an instance keeps, as it is evacuated or resized.

    Attributes:
        providers: UUIDs of the compute nodes on which it keeps what it holds.
        hosts: The names of their hosts.
    """

    providers: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()


NodesOfHosts = Callable[[Collection[str]], Collection[str]]
"""Host names -> the uuids of their compute nodes."""


NOTHING_KEPT = Kept()

ComeTo = Callable[[Mapping[str, str]], Collection[str]]
"""Service host by instance UUID -> those instances that are on it, or on their way there, for nova."""


class Answered(NamedTuple):
    """What the reply to a caller names for an instance: its service host, and all that it holds."""

    host: str
    allocations: Resources


@dataclass(frozen=True)
class Doubt:
    """One consumer.

    Attributes:
        consumer: Its UUID.
        owner: Whose its allocations are; None: they are not of this process.
        since: When the last thing became unknown, in seconds of the clock of this process.
        due: When it is looked at next; the same seconds.
        answered: What the reply to a caller names, if there was one.
        kept: What it keeps.
        attempts: How often it was looked at.
    """

    consumer: str
    owner: Owner | None
    since: float
    due: float
    answered: Answered | None = None
    kept: Kept = NOTHING_KEPT
    attempts: int = 0


class Doubts:
    """The doubts of a process. Any thread may use it."""

    def __init__(
        self,
        writer: AllocationWriter,
        states_of: ReadStates,
        nodes_of_hosts: NodesOfHosts = lambda _hosts: (),
        come_to: ComeTo = lambda _hosts: (),
        make_loop: MakeLoop = BackgroundLoop,
    ) -> None:
        """Begin without doubts.

        Args:
            states_of: Returns what nova says of instances.
            nodes_of_hosts: Returns the compute nodes of hosts, as they are known when a doubt is looked at.
            come_to: Returns those instances that nova has on a host, or on their way there.
        """
        self._writer = writer
        self._states_of = states_of
        # Nobody sets this clock. By one that is set, claims would be released before their callers have left.
        self._clock = writer.timing.monotonic
        self._nodes_of_hosts = nodes_of_hosts
        self._come_to = come_to
        self._lock = threading.Lock()
        self._doubts: dict[str, Doubt] = {}
        self._stopping = False
        self._reports = RateLimitedLogger(LOG, REPORT_INTERVAL, self._clock)
        self._loop = make_loop("doubts", self._round)

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to settle doubts.

        Raises:
            RuntimeError: The system has no thread left.
        """
        self._stopping = False
        self._loop.start()

    def stop(self) -> None:
        """Settle nothing more; Placement may take longer to answer than the process has."""
        self._stopping = True
        self._loop.stop(0)

    def __len__(self) -> int:
        """Return the number of doubts."""
        return len(self._doubts)

    @property
    def unsettled(self) -> int:
        """How many doubts were looked at, and could not be settled."""
        return sum(doubt.attempts > 0 for doubt in list(self._doubts.values()))

    # -- doubts ---------------------------------------------------------------------------------------------

    def note_unknown(self, uuids: Iterable[str], owner: Owner | None, kept: Kept = NOTHING_KEPT) -> None:
        """Note that it is not known what consumers hold, or will hold when late writes have come.

        Args:
            owner: None: this process has written nothing for them.
        """
        now = self._clock()
        for uuid in uuids:
            before = self._doubts.get(uuid)
            answered = before.answered if before else None
            self._put(Doubt(uuid, owner, now, now + LATE_WRITE_WINDOW, answered, kept))

    def note_given_up(self, builds: Iterable[str]) -> None:
        """Note that conductors have given builds up: what these hold, also from others, is of no use."""
        self.note_unknown([uuid for uuid in builds if uuid not in self._doubts], None)

    def note_answered(self, answered: Mapping[str, Answered]) -> None:
        """Note what a reply to a caller says of consumers that have a doubt."""
        for uuid, one in answered.items():
            if doubt := self._doubts.get(uuid):
                self._put(replace(doubt, answered=one))

    def _put(self, doubt: Doubt) -> None:
        with self._lock:
            if len(self._doubts) < MOST or doubt.consumer in self._doubts:
                self._doubts[doubt.consumer] = doubt
            else:
                self._reports.warning(
                    "full",
                    "Too many instances in doubt: instance %s may keep allocations that nobody uses",
                    doubt.consumer,
                )
        self._loop.wake()

    # -- settling --------------------------------------------------------------------------------------------

    def _round(self) -> float:
        while not self._stopping and self._settle_due():
            pass
        return ROUND if self._doubts else IDLE

    def _settle_due(self) -> bool:
        """Try the next doubts that are due; return whether there may be more."""
        now = self._clock()
        due = [doubt for doubt in list(self._doubts.values()) if doubt.due <= now][:TOGETHER]
        settled = self._settle(due)
        with self._lock:
            for doubt in due:
                uuid, attempts = doubt.consumer, doubt.attempts
                if self._doubts.get(uuid) is not doubt:
                    continue  # it was noted again meanwhile
                if uuid in settled:
                    del self._doubts[uuid]
                else:
                    delay = DELAYS[min(attempts, len(DELAYS) - 1)]
                    self._doubts[uuid] = replace(doubt, due=now + delay, attempts=attempts + 1)
        return len(due) == TOGETHER

    def _settle(self, doubts: Collection[Doubt]) -> set[str]:
        """Settle doubts; return the consumers of those that are settled.

        An error of one of them keeps none of the others from being settled.
        """
        settled: set[str] = set()
        releases: dict[str, Write] = {}
        # Before nova is asked. Otherwise a claim for a move that begins in between would be released.
        held: dict[str, ConsumerAllocations] = {}
        for doubt in doubts:
            with self._reporting(doubt):
                one = self._writer.reader.read(doubt.consumer)
                if doubt.owner or one.allocations:
                    held[doubt.consumer] = one
                else:  # as most builds that were given up
                    settled.add(doubt.consumer)
        for kept in {doubt.kept for doubt in doubts}:
            alike = {one.consumer: one for one in doubts if one.kept == kept and one.consumer in held}
            states = self._states_of(list(alike), kept.hosts) if alike else {}
            for uuid, doubt in alike.items():
                with self._reporting(doubt):
                    release = self._look(doubt, states[uuid], held[uuid])
                    if isinstance(release, Write):
                        releases[uuid] = release
                    elif release:
                        settled.add(uuid)
        return settled | self._release(releases)

    @contextmanager
    def _reporting(self, doubt: Doubt) -> Iterator[None]:
        """Report an error of a doubt, which is looked at again later."""
        try:
            yield
        except PlacementSilent as error:
            LOG.debug("Cannot settle instance %s: %s", doubt.consumer, error)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one doubt
            self._reports.warning(
                doubt.consumer,
                "Cannot settle instance %s: %s; trying again later",
                doubt.consumer,
                repr(error),
            )

    def _look(self, doubt: Doubt, state: InstanceState, held: ConsumerAllocations) -> Write | bool:
        """Return what releases what an instance holds; or whether there is nothing left to do.

        Raises:
            PlacementSilent: That is not known.
        """
        if state is InstanceState.MISSING:
            return self._leave_to_audit(doubt, held)
        waits = state is InstanceState.WAITING and self._clock() < doubt.since + PATIENCE
        if waits or state in {InstanceState.MOVING, InstanceState.UNKNOWN}:
            return False
        if state is InstanceState.PLACED:
            return bool(held.allocations) or self._show(doubt)
        if not held.allocations:
            # Overlapping first writes hide what they gave it. An empty write takes that away.
            return Write({}, doubt.owner) if doubt.owner else True
        # Their cell may not have been read when the doubt was made; it has been, as the state is known.
        nodes = doubt.kept.providers.union(self._nodes_of_hosts(doubt.kept.hosts) if doubt.kept.hosts else ())
        keeps_none = state is InstanceState.DELETED or not nodes
        left = {} if keeps_none else self._writer.reader.kept(held.allocations, nodes)
        return True if left == held.allocations else Write(left, held.owner, held.generation)

    def _leave_to_audit(self, doubt: Doubt, held: ConsumerAllocations) -> bool:
        """Leave alone what an instance holds that nova does not know.

        nova has a row of each before it calls a scheduler. So this may be the wrong database, which knows
        nothing of instances that are in use.
        """
        if held.allocations:
            self._reports.warning(
                "missing",
                "Instance %s holds allocations, and nova does not know it; leaving them to the audit",
                doubt.consumer,
            )
        return True

    def _release(self, releases: Mapping[str, Write]) -> set[str]:
        if not releases:
            return set()
        written = self._writer.write(releases, until=self._clock() + TRY)
        done = {uuid for uuid, one in written.items() if one.outcome is Outcome.DONE}
        if done:
            LOG.info(
                "Released the unused allocations of instances (%d): %s", len(done), ", ".join(sorted(done))
            )
        return done

    def _show(self, doubt: Doubt) -> bool:
        """Write what a reply named once more: overlapping first writes may have hidden it.

        Returns:
            Whether there is nothing left to do. After a write there is: the instance may have been deleted
            since its state was read.

        Raises:
            PlacementSilent: It is not known what became of the write.
        """
        if not (doubt.answered and doubt.owner):
            return True
        host, rows = doubt.answered
        if doubt.consumer not in self._come_to({doubt.consumer: host}):
            return True
        write = Write(rows, doubt.owner)
        written = self._writer.write({doubt.consumer: write}, until=self._clock() + TRY)[doubt.consumer]
        if written.lost:  # it may come late itself
            now = self._clock()
            self._put(replace(doubt, since=now, due=now + LATE_WRITE_WINDOW))
        if written.outcome in UNAVAILABLE:
            raise PlacementSilent(written.reason)
        if written.outcome not in {Outcome.REFUSED, Outcome.GONE, Outcome.INVALID}:
            return False
        self._reports.warning(
            doubt.consumer,
            "Instance %s is on host %s without allocations, and Placement refuses them: %s",
            doubt.consumer,
            host,
            written.reason,
        )
        return written.outcome is not Outcome.REFUSED
