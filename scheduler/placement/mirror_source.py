"""Answering queries from the mirror of Placement's compute nodes, and keeping it true in the background.

``MirrorReader`` reads every few seconds while queries come, or other schedulers claim, and rarely while
nobody does. Meanwhile queries are answered from what is known. ``WinnerCheck`` reads a node before it is
claimed, so what is late here costs a further host and no wrong claim. If nova's databases know more of a
node, it is read before the choice (``MirrorLookups``): another host that passes would hide it otherwise until
the next round.
"""

from collections.abc import Callable, Collection, Sequence
import threading
import time
from typing import Any

from oslo_log import log

from scheduler.bounds import deadline
from scheduler.bounds.background import BackgroundLoop
from scheduler.bounds.waits import waiting_for
from scheduler.logs import OutageLog
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementError
from scheduler.placement.mirror import Allocations, Mirror, MirrorAnswer, Nodes
from scheduler.placement.mirror_lookups import MirrorLookups
from scheduler.placement.mirror_reader import MirrorReader
from scheduler.placement.plain_query import PlainQuery, only_plain_query
from scheduler.placement.unit_limits import Totals, UnitLimits
from scheduler.placement.winner_check import WinnerCheck
from scheduler.request.query import Query

LOG = log.getLogger(f"nova.{__name__}")

# Without a query each interval is four times the one before, up to this many seconds.
LONGEST_INTERVAL = 600.0

# The list of all providers is read for at most one part in so many of the time: 50,000 nodes keep Placement
# busy for 1.6 seconds (measured with Placement 16).
LIST_PART = 20.0

# Seconds after which a query waits for a round, and how long at most; then Placement is asked.
TOO_OLD = 60.0
WAIT_FOR_ROUND = 10.0

# Seconds to the next round while nodes with free memory are still to be read.
INCOMPLETE_INTERVAL = 0.5


class CandidateMirror:
    """A mirror that is refreshed in the background. Any thread may use it; ``start`` it first.

    Attributes:
        known: What is known of the nodes.
        reader: What reads them.
        look_up: Reads nodes that suit a query by nova's databases; see ``MirrorLookups``.
        limits: What is known of their unit limits.
    """

    def __init__(
        self,
        client: PlacementClient,
        interval: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        aggregates: Callable[[], frozenset[str] | None] = lambda: None,
        totals: Totals | None = None,
    ) -> None:
        """Set up the mirror; nothing is read yet.

        Args:
            interval: Returns the seconds between two rounds while queries come.
            aggregates: Returns the aggregates whose nodes are mirrored; None: all nodes.
            totals: What nova's databases have of nodes, for their unit limits.
        """
        self._client = client
        self.known = Mirror(clock)
        self._clock = clock
        self._configured_interval = interval
        self.limits = UnitLimits(client, totals)
        self.reader = MirrorReader(client, self.known, aggregates)
        self._round_done = threading.Condition()
        self._lookups = MirrorLookups(client, self.known, self.reader)
        self.look_up = self._lookups.look_up
        self._round_at = float("-inf")
        self._idle_rounds = 0
        self._wanted = self._usable = self._failing = False
        self._outage = OutageLog(
            LOG,
            "Cannot refresh the mirror of Placement; requests query Placement once the mirror is too old",
            "Mirror of Placement is refreshed again",
            clock,
        )
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
        plain = only_plain_query(queries)
        if plain is None or not (self._is_usable() and self._lookups.knows_names(plain)):
            return None
        return self.known.find(plain)

    def known_nodes(self, aggregates: Collection[str], *, reads: bool = True) -> Nodes | None:
        """Return a copy of all that is known of the nodes; None if it does not show what Placement has.

        Args:
            aggregates: Those whose members must be known.
            reads: Whether members that are not known may be read.
        """
        if not self._usable or self._is_old() or self.reader.trees.blocked:
            return None
        if not self._lookups.knows_names(PlainQuery({}, member_of=(frozenset(aggregates),)), reads=reads):
            return None
        nodes = self.known.nodes()
        self.limits.spread(nodes)
        return nodes

    def check(self, answer: MirrorAnswer, context: Any) -> WinnerCheck:
        """Return what checks the nodes that are chosen from an answer before they are claimed."""
        return WinnerCheck(self.known, self._client, answer, context)

    def _is_usable(self) -> bool:
        """Whether queries are answered. After a rest a round is waited for: it costs less than their own."""
        self._want()
        if self._usable and self._is_old() and self._loop.running:
            timeout = deadline.current().bound(WAIT_FOR_ROUND)
            with self._round_done, waiting_for("the mirror of Placement"):
                self._round_done.wait_for(lambda: self._failing or not self._is_old(), timeout)
        return self._usable and not self._is_old() and not self.reader.trees.blocked

    def _want(self) -> None:
        if self._idle_rounds and not self._wanted:
            self._loop.wake()
        self._wanted = True

    def _is_old(self) -> bool:
        return self.age() > max(TOO_OLD, 3 * self._interval)

    @property
    def _interval(self) -> float:
        """The seconds between two rounds while queries come."""
        return max(self._configured_interval(), LIST_PART * self.reader.list_seconds)

    # -- what happens to the nodes ---------------------------------------------------------------------------

    def claimed(self, _instance: str, _allocations: Allocations) -> None:
        """Do nothing: the writer counts its writes."""

    def released(self, _instance: str, allocations: Allocations) -> None:
        """Count that a claim is released."""
        self.known.released(allocations)

    def heard(self, allocations: Allocations, age: float, sign: int) -> None:
        """Count a claim of another scheduler, or its release, as ``Mirror.heard``.

        If that scheduler stops, this one is asked next. A mirror at rest would let its first request wait.
        """
        self._want()
        self.known.heard(allocations, age, sign)

    def refused(self, provider: str, resource_class: str) -> None:
        """Note a claim that was refused while another host may be granted.

        Args:
            provider: The provider that Placement names, or "".
            resource_class: The class that it names, or "": the provider does not exist.
        """
        if provider and not resource_class:
            self.known.forget(provider)
            self._lookups.note(provider, suits=False)
        elif provider:
            self.known.doubt([provider])

    def nodes_changed(self, nodes: Collection[str]) -> None:
        """Read nodes that lost instances again in the next round, also those that were full."""
        self.known.doubt(nodes)
        self.reader.note_freed(nodes)

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

    def read(self, nodes: Collection[str] | None = None) -> None:
        """Read nodes and their limits now, for a caller that does not start the mirror.

        Args:
            nodes: The only nodes that matter; None: all.

        Raises:
            PlacementError: Placement does not answer.
        """
        if nodes is not None:
            begun = self._clock()
            self.reader.read_only(nodes)
            self._usable, self._round_at = True, begun
            return
        self._run_round()
        while self.reader.unread:
            self._run_round()
        while self.reader.limited_nodes:
            self.reader.read_limited()
        self.limits.learn_all(self.known)

    def _run_round(self) -> float:
        begun = self._clock()
        self.reader.run_round()
        self._usable, self._round_at = not self.reader.unread, begun
        if self.reader.unread:
            return INCOMPLETE_INTERVAL
        self.limits.learn(self.known)
        self._idle_rounds = 0 if self._wanted else min(self._idle_rounds + 1, 30)
        self._wanted = False
        wait = min(LONGEST_INTERVAL, self._interval * 4.0**self._idle_rounds)
        return max(0.0, wait - (self._clock() - begun))
