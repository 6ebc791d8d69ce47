"""Keeping the mirror of Placement's compute nodes true, and answering queries from it.

A round in the background reads the list of all providers with their generations, every few seconds while
queries come and rarely while none does. Nodes that changed for a reason which is not known are read again one
by one; if there are many, the wide query is sent once. Meanwhile queries are answered from what is known.
``WinnerCheck`` reads a node before it is claimed, so what is late here costs a further host and no wrong
claim.

Nodes that the wide answer lacks are full, or have unit limits, or Placement has cut the answer. Those with
free memory are read one by one before a query is answered; of the others some in each round.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
import threading
import time
from typing import Any

from oslo_log import log

from scheduler import deadline
from scheduler.background import BackgroundLoop
from scheduler.logs import OutageLog, RateLimitedLogger
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementError, QuestionRefused
from scheduler.placement.mirror import (
    Allocations,
    Mirror,
    MirrorAnswer,
    Reading,
    WideAnswer,
    read_wide,
    wide_query,
)
from scheduler.placement.plain_query import PlainQuery, plain_query
from scheduler.placement.providers import (
    ListedProvider,
    list_path,
    read_generation,
    read_list,
    read_state,
    which_traits_exist,
)
from scheduler.placement.trees import Trees
from scheduler.placement.winner_check import WinnerCheck
from scheduler.request.query import MICROVERSION, Query

LOG = log.getLogger(__name__)

# Without a query each interval is four times the one before, up to this many seconds.
LONGEST_INTERVAL = 600.0

# The list of all providers is read for at most one part in so many of the time: 50,000 nodes keep Placement
# busy for 1.6 seconds (measured with Placement 16).
LIST_PART = 20.0

# Seconds after which a query waits for a round, and how long at most; then Placement is asked.
TOO_OLD = 60.0
WAIT_FOR_ROUND = 10.0

# Seconds between two wide questions: at most because many nodes have changed, and at least in any case. The
# latter finds what does not raise a generation: allocations that were deleted with DELETE.
MOVED_WIDE_INTERVAL = 60.0
WIDE_INTERVAL = 600.0

# Nodes that are read one by one in a round: so many, or this share of all; if more have changed the wide
# question costs less. Of nodes without free memory so many are read in a round.
READ_SINGLY = 30
READ_SHARE = 0.01
READ_FULL = 10

# Seconds for which nodes are read one by one in a round.
READ_TIME = 20.0

# Seconds to the next round while nodes with free memory are still to be read.
INCOMPLETE_INTERVAL = 0.5

# Traits that need not be looked up: nearly every query forbids this one.
ALWAYS_THERE = frozenset({"COMPUTE_STATUS_DISABLED"})

# Above this share of refused claims of so many or more since the last round, the mirror misleads more than it
# helps: queries go to Placement until the wide query was sent again.
REFUSED_MOSTLY = 0.2
STORM_CLAIMS = 50


class CandidateMirror:
    """A mirror that is refreshed in the background. Any thread may use it; ``start`` it first.

    Attributes:
        known: What is known of the nodes.
    """

    def __init__(
        self,
        client: PlacementClient,
        interval: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        aggregates: Callable[[], frozenset[str] | None] = lambda: None,
    ) -> None:
        """Set up the mirror; nothing is read yet.

        Args:
            interval: Returns the seconds between two rounds while queries come.
            aggregates: Returns the aggregates whose nodes are mirrored; None: all nodes.
        """
        self._client = client
        self.known = Mirror(clock)
        self._clock = clock
        self._aggregates = aggregates
        self._configured_interval = interval
        self._trees = Trees(client)
        self._round_done = threading.Condition()
        self._learning = threading.Lock()
        self._traits = ALWAYS_THERE
        self._round_at = self._wide_at = float("-inf")
        self._list_seconds = 0.0
        self._idle_rounds = 0
        self._wanted = self._usable = self._failing = False
        self._wants_wide = True
        self._unread: dict[str, int] = {}  # nodes with free memory that are not known, and their generations
        self._left_out: dict[str, int] = {}  # the same for others
        self._granted = self._refused = 0
        self._outage = OutageLog(
            LOG,
            "Cannot refresh the mirror of Placement; requests query Placement once the mirror is too old",
            "Mirror of Placement is refreshed again",
            clock,
        )
        self._warn = RateLimitedLogger(LOG, 3600.0, clock)
        self._tried = threading.Event()
        self._loop = BackgroundLoop("candidate-mirror", self.run_round)

    def start(self) -> None:
        """Begin to refresh. Until the first round is complete, queries go to Placement."""
        self._loop.start()

    def wait_until_tried(self, timeout: float) -> None:
        """Wait until the first round is complete or has failed, for at most ``timeout`` seconds.

        Each request that comes before would query Placement, which also makes the round longer.
        """
        if self._loop.running:
            self._tried.wait(timeout)

    def stop(self) -> None:
        """Stop refreshing."""
        self._loop.stop()

    def age(self) -> float:
        """Return the seconds since the last round began."""
        return self._clock() - self._round_at

    def find(self, queries: Sequence[Query]) -> MirrorAnswer | None:
        """Return the compute nodes that suit the queries; None: query Placement."""
        plain = plain_query(queries[0]) if len(queries) == 1 else None
        if plain is None or not self._is_usable():
            return None
        try:
            return self.known.find(plain) if self._knows_names(plain) or self._learn_names(plain) else None
        except PlacementError as error:
            LOG.debug("Cannot read the aggregates and traits of a query: %s", error)
            return None

    def check(self, query: PlainQuery, context: Any) -> WinnerCheck:
        """Return what checks the nodes that are chosen for a query before they are claimed."""
        path = list_path(member_of=self._aggregates() or ())
        return WinnerCheck(self.known, self._client, query, context, path)

    def _is_usable(self) -> bool:
        """Whether queries are answered. After a rest a round is waited for: it costs less than their own."""
        if self._idle_rounds and not self._wanted:
            self._loop.wake()
        self._wanted = True
        if self._usable and self._is_old() and self._loop.running:
            timeout = deadline.current().bound(WAIT_FOR_ROUND)
            with self._round_done:
                self._round_done.wait_for(lambda: self._failing or not self._is_old(), timeout)
        return self._usable and not self._is_old() and not self._trees.blocked

    def _is_old(self) -> bool:
        return self.age() > max(TOO_OLD, 3 * self._interval)

    @property
    def _interval(self) -> float:
        """The seconds between two rounds while queries come."""
        return max(self._configured_interval(), LIST_PART * self._list_seconds)

    def _knows_names(self, query: PlainQuery) -> bool:
        """Whether the nodes of its aggregates are known, and its forbidden traits to exist.

        Placement rejects a query with a trait that does not exist. If that is required, no node is left, and
        Placement is asked in any case.
        """
        return query.aggregates <= self.known.known_aggregates and query.forbidden <= self._traits

    def _learn_names(self, query: PlainQuery) -> bool:
        """Read what is not known of the names in a query; return whether it can be answered then."""
        if not self._learning.acquire(timeout=deadline.current().bound(WAIT_FOR_ROUND)):
            return False
        try:
            for aggregate in sorted(query.aggregates - self.known.known_aggregates):
                begun = self._clock()
                self.known.learn_members(aggregate, self._read_members(aggregate), begun)
            if traits := query.forbidden - self._traits:
                self._traits |= which_traits_exist(self._client, traits)
        finally:
            self._learning.release()
        return self._knows_names(query)

    def _read_members(self, aggregate: str) -> list[str]:
        return [one.uuid for one in read_list(self._client, list_path(member_of=[aggregate]))]

    # -- what happens to the nodes ---------------------------------------------------------------------------

    def claimed(self) -> None:
        """Count a claim that Placement granted."""
        self._granted += 1

    def released(self, allocations: Allocations) -> None:
        """Count that a claim is released."""
        self.known.released(allocations)

    def refused(self, provider: str, resource_class: str) -> None:
        """Note a claim that was refused while another host may be granted.

        Args:
            provider: The provider that Placement names, or "".
            resource_class: The class that it names, or "": the provider does not exist.
        """
        self._refused += 1
        if provider and not resource_class:
            self.known.forget(provider)
        elif provider:
            self.known.doubt([provider])
        refused, total = self._refused, self._refused + self._granted
        if self._usable and total >= STORM_CLAIMS and refused > REFUSED_MOSTLY * total:
            self._usable, self._wants_wide = False, True
            self._loop.wake()
            LOG.warning(
                "%d of the last %d claims were refused; requests query Placement until the mirror is "
                "refreshed",
                refused,
                total,
            )

    def nodes_changed(self, nodes: Collection[str]) -> None:
        """Read nodes that lost instances again in the next round, also those that were full."""
        self.known.doubt(nodes)
        for node in nodes:
            self._left_out.pop(node, None)

    # -- the refreshing thread -------------------------------------------------------------------------------

    def run_round(self) -> float:
        """Compare the mirror with the generations in Placement. Return the seconds to wait."""
        try:
            wait = self._run_round()
        except PlacementError as error:
            self._failing = True
            self._outage.report_failure(error)
            wait = self._configured_interval()
        else:
            self._failing = False
            self._outage.report_success()
        self._tried.set()
        with self._round_done:
            self._round_done.notify_all()
        return wait

    def read(self) -> None:
        """Read all nodes now, for a caller that does not start the mirror.

        Raises:
            PlacementError: Placement does not answer.
        """
        self._run_round()
        while self._unread:
            self._run_round()

    def _run_round(self) -> float:
        self._granted = self._refused = 0
        reading = self.known.begin_reading()
        listed = read_list(self._client, list_path(member_of=self._aggregates() or ()))
        self._list_seconds = self._clock() - reading.begun
        roots = {one.uuid: one.generation for one in listed if one.is_root}
        if self._wants_wide or reading.begun >= self._wide_at + WIDE_INTERVAL:
            self._read_wide(reading, listed, roots)
        else:
            self._follow(reading, listed, roots)
        self._trees.update(listed, complete=not self._aggregates())
        self._usable = not (self._unread or self._wants_wide)
        self._round_at = reading.begun
        if self._unread:
            return INCOMPLETE_INTERVAL
        self._idle_rounds = 0 if self._wanted else min(self._idle_rounds + 1, 30)
        self._wanted = False
        wait = min(LONGEST_INTERVAL, self._interval * 4.0**self._idle_rounds)
        return max(0.0, wait - (self._clock() - reading.begun))

    def _follow(self, reading: Reading, listed: Sequence[ListedProvider], roots: Mapping[str, int]) -> None:
        """Read again what changed for a reason that is not known, and what is new."""
        moved = self.known.compare(reading, roots)
        appeared = [
            uuid
            for uuid, generation in roots.items()
            if not (uuid in self.known or uuid in self._unread or self._left_out.get(uuid) == generation)
        ]
        most = max(READ_SINGLY, int(READ_SHARE * len(roots)))
        if len(moved) + len(appeared) > most and self._clock() >= self._wide_at + MOVED_WIDE_INTERVAL:
            self._read_wide(reading, listed, roots)
            return
        full = [uuid for uuid in list(self._left_out) if uuid not in appeared][:READ_FULL]
        self._read_nodes([*appeared, *self._unread, *moved][:most] + full)

    def _read_wide(
        self, reading: Reading, listed: Sequence[ListedProvider], roots: Mapping[str, int]
    ) -> None:
        """Ask the wide question, and use its answer."""
        self._wants_wide = False  # refusals from now on need another one
        try:
            members = {one: self._read_members(one) for one in self.known.known_aggregates}
            wide = self._ask_wide()
        except BaseException:
            self._wants_wide = True
            raise
        self.known.publish(wide.nodes, reading, roots, members)
        self._trees.learn(wide.children, listed)
        self._wide_at, self._traits = reading.begun, ALWAYS_THERE
        self._note_absent({uuid: one for uuid, one in roots.items() if uuid not in self.known})
        self._report_cut(len(wide.nodes))

    def _ask_wide(self) -> WideAnswer:
        path = f"/allocation_candidates?{wide_query(self._aggregates() or ())}"
        reply = self._client.get(path, MICROVERSION, search=True)
        if reply.status != 200:
            raise QuestionRefused(reply.summary)
        return read_wide(reply.body)

    def _note_absent(self, absent: Mapping[str, int]) -> None:
        """Note which nodes the wide answer lacks although they have free memory, and which others."""
        free: set[str] = set()
        if absent:
            path = list_path({"MEMORY_MB": 1}, member_of=self._aggregates() or ())
            free = {one.uuid for one in read_list(self._client, path)}
        self._unread = {uuid: one for uuid, one in absent.items() if uuid in free}
        self._left_out = {uuid: one for uuid, one in absent.items() if uuid not in free}

    def _report_cut(self, named: int) -> None:
        """Warn if the wide answer was cut: a node with free memory is not in it, and has not changed."""
        if not self._unread:
            return
        uuid, generation = next(iter(self._unread.items()))
        if read_generation(self._client, uuid) != generation:
            return
        total = named + len(self._unread)
        self._warn.warning(
            "cut",
            "Placement names %d of %d compute nodes with free memory in one answer: in its configuration "
            "[placement]/max_allocation_candidates is too low; set it to %d or more. Reading the others "
            "one by one; requests query Placement until this is done",
            named,
            total,
            total,
        )

    def _read_nodes(self, uuids: Iterable[str]) -> None:
        """Read nodes one by one, and add those that are not mirrored yet; what takes too long waits."""
        uuids = list(dict.fromkeys(uuids))
        self.known.add(uuids)
        end = self._clock() + READ_TIME
        for uuid in uuids:
            begun = self._clock()
            if begun > end:
                return
            state = read_state(self._client, uuid)
            if state is None:
                self.known.forget(uuid)
            else:
                self.known.correct(state, begun)
            self._unread.pop(uuid, None)
            self._left_out.pop(uuid, None)
