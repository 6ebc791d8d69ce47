"""What could not be settled on a bad day: one entry for each consumer with an unknown state.

A write had no response and may come late, a release was not carried out, or a call was run before and the
writes of its earlier run may still come. Each entry is looked at when no late write is expected any more, and
at growing intervals until it is settled, however long that takes. Entries are in memory and in a file
(``spool_file``), which the next process takes over.

What nova says of the instance decides: what a placed instance holds is left alone, a waiting one is left to
its caller, one that nova does not know to the audit, and what others hold is released by the generation that
was read. One that is moved is left alone
for as long as that lasts: its disk may be copied for hours, to a host that another run has replied with.

A claim is written again only if a reply named it and nova has the instance on that host, or on its way there.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
import math
import threading
from typing import Any, NamedTuple

from oslo_log import log

from scheduler.bounds.background import BackgroundLoop, MakeLoop
from scheduler.claims.spool_file import Line, SpoolFile
from scheduler.logs import RateLimitedLogger
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.allocations import COMPUTE, ConsumerAllocations, Owner
from scheduler.placement.answer import Resources
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.outcomes import UNAVAILABLE, Outcome
from scheduler.placement.write_policy import LATE_WRITE_WINDOW
from scheduler.placement.writes import Write
from scheduler.request.instance_state import InstanceState, ReadStates

LOG = log.getLogger(f"nova.{__name__}")

#: Seconds for which an instance is left alone while a caller waits to build it: longer than any caller does.
PATIENCE = 1900.0

#: Seconds between the looks at one entry; the last one repeats.
DELAYS = (1.0, 5.0, 20.0, 60.0, 300.0)

#: Seconds between two rounds with entries, and without: then files of ended processes are looked for.
ROUND, IDLE = 1.0, 60.0

#: Entries that are settled together, and seconds that this may take in Placement.
TOGETHER, TRY = 20, 5.0

#: Entries that are kept. Further ones are logged, and found by an audit; those of ended processes wait in
#: their files.
MOST_ENTRIES = 100_000

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


def no_nodes(_hosts: Collection[str]) -> Collection[str]:
    """Return that no host is known."""
    return ()


NOTHING_KEPT = Kept()

ComeTo = Callable[[Mapping[str, str]], Collection[str]]
"""Service host by instance UUID -> those instances that are on it, or on their way there, for nova."""


def none_come(_hosts: Mapping[str, str]) -> Collection[str]:
    """Return that no instance comes to its host."""
    return ()


class Answered(NamedTuple):
    """What the reply to a caller names for an instance: its service host, and all that it holds."""

    host: str
    allocations: Resources


NOT_ANSWERED = Answered("", {})


@dataclass(frozen=True)
class Entry:
    """One consumer.

    Attributes:
        consumer: Its UUID.
        owner: Whose its allocations are.
        since: When the last thing became unknown, in seconds of the clock of this process.
        due: When it is looked at next; the same seconds.
        lost: Whether a write had no response. Placement may hide what such writes gave it.
        answered: What the reply to a caller names.
        generation: The only one with which it is to be released; None: the one that it turns out to have.
        kept: What it keeps.
        attempts: How often it was looked at.
    """

    consumer: str
    owner: Owner
    since: float
    due: float
    lost: bool = False
    answered: Answered = NOT_ANSWERED
    generation: int | None = None
    kept: Kept = NOTHING_KEPT
    attempts: int = 0

    def to_line(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "consumer": self.consumer,
            "lost": self.lost,
            "answered": list(self.answered),
            "generation": self.generation,
            "owner": [self.owner.project_id, self.owner.user_id],
            "kept": [sorted(self.kept.providers), sorted(self.kept.hosts)],
        }

    @classmethod
    def of_line(cls, line: Line, now: float) -> "Entry":
        """Return the entry of a line. It counts from now on: no clock is known to both processes."""
        providers, hosts = line.kept
        return cls(
            line.consumer,
            Owner(*line.owner),
            now,
            now if line.generation is not None else now + LATE_WRITE_WINDOW,
            line.lost,
            Answered(*line.answered),
            line.generation,
            Kept(frozenset(providers), frozenset(hosts)),
        )

    def joined(self, other: "Entry") -> "Entry":
        """Return what two processes know of the consumer; a generation counts if both name it."""
        return Entry(
            self.consumer,
            self.owner,
            max(self.since, other.since),
            max(self.due, other.due),
            self.lost or other.lost,
            self.answered if self.answered.allocations else other.answered,
            self.generation if self.generation == other.generation else None,
            Kept(self.kept.providers | other.kept.providers, self.kept.hosts | other.kept.hosts),
        )


class Spool:
    """The entries of a process. Any thread may use it."""

    def __init__(
        self,
        writer: AllocationWriter,
        states_of: ReadStates,
        file: SpoolFile,
        nodes_of_hosts: NodesOfHosts = no_nodes,
        come_to: ComeTo = none_come,
        make_loop: MakeLoop = BackgroundLoop,
    ) -> None:
        """Begin without entries.

        Args:
            states_of: Returns what nova says of instances.
            nodes_of_hosts: Returns the compute nodes of hosts, as they are known when an entry is looked at.
            come_to: Returns those instances that nova has on a host, or on their way there.
        """
        self._writer = writer
        self._states_of = states_of
        self._file = file
        # Nobody sets this clock. By one that is set, claims would be released before their callers have left.
        self._clock = writer.timing.monotonic
        self._nodes_of_hosts = nodes_of_hosts
        self._come_to = come_to
        self._lock = threading.Lock()
        self._entries: dict[str, Entry] = {}
        self._unwritten = False
        self._looked_at = -math.inf
        self._stopping = False
        self._reports = RateLimitedLogger(LOG, REPORT_INTERVAL, self._clock)
        self._loop = make_loop("spool", self._round)

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take over what ended processes have left, and begin to settle it.

        Raises:
            RuntimeError: The system has no thread left.
        """
        self._stopping = False
        self._loop.start()

    def stop(self, timeout: float) -> None:
        """Settle what can be settled at once, for ``timeout`` seconds at most; the rest stays in the file."""
        self._stopping = True
        self._loop.stop(0)
        # A daemon thread: Placement may take longer to answer than the process has.
        last = threading.Thread(
            target=self._settle_until, args=(self._clock() + timeout,), name="spool stops", daemon=True
        )
        with suppress(RuntimeError):  # no thread is left
            last.start()
            last.join(timeout)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    @property
    def problem(self) -> str:
        """Why something cannot be kept or read; "" if all is well."""
        return self._file.problem

    # -- entries ---------------------------------------------------------------------------------------------

    def note_lost(self, uuids: Iterable[str], owner: Owner, kept: Kept = NOTHING_KEPT) -> None:
        """Note that writes had no response and may come late."""
        self._note(uuids, owner, kept, lost=True)

    def note_unknown(self, uuids: Iterable[str], owner: Owner, kept: Kept = NOTHING_KEPT) -> None:
        """Note that it is not known what consumers hold, or will hold when late writes have come."""
        self._note(uuids, owner, kept, lost=False)

    def _note(self, uuids: Iterable[str], owner: Owner, kept: Kept, *, lost: bool) -> None:
        now = self._clock()
        for uuid in uuids:
            before = self._entries.get(uuid)
            answered = before.answered if before else NOT_ANSWERED
            lost_before = lost or bool(before and before.lost)
            self._put(Entry(uuid, owner, now, now + LATE_WRITE_WINDOW, lost_before, answered, kept=kept))

    def note_unreleased(self, uuid: str, held: ConsumerAllocations, kept: Kept = NOTHING_KEPT) -> None:
        """Note a release that was not carried out. A lost write of the consumer is looked at in any case."""
        now = self._clock()
        if uuid not in self._entries:
            due = now + DELAYS[0]
            self._put(Entry(uuid, held.owner, now, due, generation=held.generation, kept=kept))

    def note_answered(self, answered: Mapping[str, Answered]) -> None:
        """Note what a reply to a caller says of consumers that have an entry."""
        for uuid, one in answered.items():
            if entry := self._entries.get(uuid):
                self._put(replace(entry, answered=one))

    def _put(self, entry: Entry) -> None:
        self._put_all([entry])
        self._loop.wake()

    def _put_all(self, entries: Sequence[Entry]) -> None:
        with self._lock:
            new = [each for each in entries if each.consumer not in self._entries]
            for entry in new[max(0, MOST_ENTRIES - len(self._entries)) :]:
                self._reports.warning(
                    "full",
                    "Spool is full: instance %s is not recorded and may keep allocations that nobody uses",
                    entry.consumer,
                )
            left_out = {each.consumer for each in new[max(0, MOST_ENTRIES - len(self._entries)) :]}
            kept = [each for each in entries if each.consumer not in left_out]
            self._entries |= {each.consumer: each for each in kept}
            if kept:
                self._unwritten |= not self._file.append(each.to_line() for each in kept)

    # -- settling --------------------------------------------------------------------------------------------

    def _round(self) -> float:
        now = self._clock()
        if now >= self._looked_at + IDLE:
            self._looked_at = now
            self._take_over()
        while not self._stopping and self._settle_due():
            pass
        return ROUND if self._entries else IDLE

    def _take_over(self) -> None:
        found = 0
        for lines in self._file.take_over(lambda: 0 if self._stopping else MOST_ENTRIES - len(self._entries)):
            entries = [Entry.of_line(line, self._clock()) for line in lines]
            found += len(entries)
            known = [self._entries.get(each.consumer) for each in entries]
            self._put_all(
                [one if mine is None else mine.joined(one) for one, mine in zip(entries, known, strict=True)]
            )
        if found:
            LOG.warning(
                "Instances found in the spool files of ended schedulers: %d; checking their allocations",
                found,
            )

    def _settle_due(self) -> bool:
        """Try the next entries that are due; return whether there may be more."""
        now = self._clock()
        due = [entry for entry in list(self._entries.values()) if entry.due <= now][:TOGETHER]
        if not due:
            if self._unwritten:
                self._rewrite()
            return False
        settled = self._settle(due)
        with self._lock:
            # One that was noted again meanwhile is not settled, in memory nor in the file.
            over = {entry.consumer: entry for entry in due if self._entries.get(entry.consumer) is entry}
            for uuid, entry in over.items():
                delay = DELAYS[min(entry.attempts + 1, len(DELAYS) - 1)]
                self._entries[uuid] = replace(entry, due=now + delay, attempts=entry.attempts + 1)
            for uuid in (gone := over.keys() & settled):
                del self._entries[uuid]
            if gone and self._entries:
                self._file.append({"consumer": uuid, "settled": True} for uuid in gone)
        if not self._entries:
            self._rewrite()
        return len(due) == TOGETHER

    def _settle_until(self, end: float) -> None:
        while self._clock() < end and self._settle_due():
            pass

    def _rewrite(self) -> None:
        with self._lock:
            lines = [entry.to_line() for entry in self._entries.values()]
            self._unwritten = not self._file.replace(lines)

    def _settle(self, entries: Collection[Entry]) -> set[str]:
        """Settle entries; return the consumers of those that are settled.

        An error of one of them keeps none of the others from being settled.
        """
        settled: set[str] = set()
        releases: dict[str, Write] = {}
        # Before nova is asked. Otherwise a claim for a move that begins in between would be released.
        held: dict[str, ConsumerAllocations] = {}
        for entry in entries:
            with self._reporting(entry):
                held[entry.consumer] = self._writer.reader.read(entry.consumer)
        for kept in {entry.kept for entry in entries}:
            alike = {one.consumer: one for one in entries if one.kept == kept and one.consumer in held}
            states = self._states_of(list(alike), kept.hosts) if alike else {}
            for uuid, entry in alike.items():
                with self._reporting(entry):
                    release = self._look(entry, states[uuid], held[uuid])
                    if isinstance(release, Write):
                        releases[uuid] = release
                    elif release:
                        settled.add(uuid)
        return settled | self._release(releases)

    @contextmanager
    def _reporting(self, entry: Entry) -> Iterator[None]:
        """Report an error of an entry, which is looked at again later."""
        try:
            yield
        except PlacementSilent as error:
            LOG.debug("Cannot settle instance %s: %s", entry.consumer, error)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one entry
            text = "Cannot settle instance %s: %s; trying again later"
            self._reports.warning(entry.consumer, text, entry.consumer, repr(error))

    def _look(self, entry: Entry, state: InstanceState, held: ConsumerAllocations) -> Write | bool:
        """Return what releases what an instance holds; or whether there is nothing left to do.

        Raises:
            PlacementSilent: That is not known.
        """
        if state is InstanceState.MISSING and entry.generation is None:
            return self._leave_to_audit(entry, held)
        waits = state is InstanceState.WAITING and self._clock() < entry.since + PATIENCE
        is_open = entry.generation is None and (waits or state is InstanceState.MOVING)
        if is_open or state is InstanceState.UNKNOWN:
            return False
        if state is InstanceState.PLACED:
            return bool(held.allocations) or self._show(entry)
        if not held.allocations:
            # An empty write takes away what Placement may hide, and needs no room, as a claim would.
            return Write({}, entry.owner) if entry.lost else True
        if entry.generation not in {None, held.generation}:
            return True
        deleted = state in {InstanceState.DELETED, InstanceState.MISSING}
        left = {} if deleted else self._left(held.allocations, entry.kept)
        return True if left == held.allocations else Write(left, held.owner, held.generation)

    def _leave_to_audit(self, entry: Entry, held: ConsumerAllocations) -> bool:
        """Leave alone what an instance holds that nova does not know.

        nova has a row of each before it calls a scheduler. So this may be the wrong database, which knows
        nothing of instances that are in use.
        """
        if held.allocations:
            self._reports.warning(
                "missing",
                "Instance %s holds allocations, and nova does not know it; leaving them to the audit",
                entry.consumer,
            )
        return True

    def _left(self, held: Resources, kept: Kept) -> Resources:
        """Return what an instance keeps: what it holds on the hosts it leaves, and what those share.

        Raises:
            PlacementSilent: The root of a provider is not known.
        """
        # Their cell may not have been read when the entry was made; it has been, as the state is known.
        providers = kept.providers.union(self._nodes_of_hosts(kept.hosts) if kept.hosts else ())
        if not providers:
            return {}
        roots = {provider: self._writer.reader.root_of(provider) for provider in held}
        nodes = {roots[each] for each, entry in held.items() if COMPUTE & entry["resources"].keys()}
        return {
            each: entry
            for each, entry in held.items()
            if each in providers or roots[each] in providers or roots[each] not in nodes
        }

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

    def _show(self, entry: Entry) -> bool:
        """Write what a reply named once more: overlapping first writes may have hidden it.

        Returns:
            Whether there is nothing left to do. After a write there is: the instance may have been deleted
            since its state was read.

        Raises:
            PlacementSilent: It is not known what became of the write.
        """
        host, rows = entry.answered
        if not rows or entry.consumer not in self._come_to({entry.consumer: host}):
            return True
        write = Write(rows, entry.owner)
        written = self._writer.write({entry.consumer: write}, until=self._clock() + TRY)[entry.consumer]
        if written.lost:  # it may come late itself
            now = self._clock()
            self._put(replace(entry, lost=True, since=now, due=now + LATE_WRITE_WINDOW))
        if written.outcome in UNAVAILABLE:
            raise PlacementSilent(written.reason)
        if written.outcome not in {Outcome.REFUSED, Outcome.GONE, Outcome.INVALID}:
            return False
        self._reports.warning(
            entry.consumer,
            "Instance %s is on host %s without allocations, and Placement refuses them: %s",
            entry.consumer,
            host,
            written.reason,
        )
        return written.outcome is not Outcome.REFUSED
