"""What a request reads for the mirror before it is answered: names in its query, and nodes that are new.

The names are aggregates, whose members are to be known, and forbidden traits, which are to exist: Placement
rejects a query with a trait that does not exist. If that is required, no node is left, and Placement is asked
in any case. Nodes are read if nova's databases know more about them than the mirror does.
"""

from collections.abc import Sequence
from functools import partial
import threading

from cachetools import FIFOCache
from oslo_log import log

from scheduler.bounds import deadline
from scheduler.bounds.waits import waiting_for
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementError
from scheduler.placement.mirror import Mirror
from scheduler.placement.mirror_reader import MirrorReader
from scheduler.placement.plain_query import PlainQuery
from scheduler.placement.providers import STATE, read_provider, which_traits_exist
from scheduler.placement.read_each import read_each

LOG = log.getLogger(f"nova.{__name__}")

# Seconds for which a request waits for another one that reads; then Placement is asked.
WAIT_FOR_OTHERS = 10.0

# Nodes that are read for one request because nova's databases know more of them, and how many at a time.
MOST_LOOKED_UP = 8
LOOKED_UP_AT_ONCE = 4

# Seconds to the next reading of such a node if it does not suit in Placement either: at first, and at most.
# The wait is doubled each time.
FIRST_WAIT = 1.0
LONGEST_WAIT = 600.0


class MirrorLookups:
    """Reads for requests, one request at a time. Any thread may use it."""

    def __init__(self, client: PlacementClient, known: Mirror, reader: MirrorReader) -> None:
        """Read nothing yet; ``known`` gets what is read."""
        self._client = client
        self._known = known
        self._reader = reader
        self._lock = threading.Lock()
        self._looked_up: FIFOCache[str, tuple[float, float]] = FIFOCache(maxsize=10_000)  # due, wait

    def knows_names(self, query: PlainQuery, *, reads: bool = True) -> bool:
        """Return whether the names in a query are known; those that are not are read if ``reads``."""
        if self._are_known(query) or not (reads and self._may_read()):
            return self._are_known(query)
        try:
            self._learn(query)
        except PlacementError as error:
            LOG.debug("Cannot read the aggregates and traits of a query: %s", error)
        finally:
            self._lock.release()
        return self._are_known(query)

    def _are_known(self, query: PlainQuery) -> bool:
        return query.aggregates <= self._known.known_aggregates and query.forbidden <= self._reader.traits

    def _learn(self, query: PlainQuery) -> None:
        for aggregate in sorted(query.aggregates - self._known.known_aggregates):
            begun = self._known.clock()
            self._known.learn_members(aggregate, self._reader.members_of(aggregate), begun)
        if traits := query.forbidden - self._reader.traits:
            self._reader.traits |= which_traits_exist(self._client, traits)

    def _may_read(self) -> bool:
        """Wait for other requests that read something for the mirror; return whether the lock is held."""
        with waiting_for("another request that reads for the mirror of Placement"):
            return self._lock.acquire(timeout=deadline.current().bound(WAIT_FOR_OTHERS))

    def look_up(self, query: PlainQuery, nodes: Sequence[str]) -> bool:
        """Read nodes that suit a query by nova's databases, and do not by the mirror; a few for each request.

        Those that do not suit in Placement either are read again later and later.

        Returns:
            Whether some were read since the mirror was queried, by this request or by another one.
        """
        due = self._due(nodes)
        if not due or not self._may_read():
            return False
        try:
            due = self._due(due)[:MOST_LOOKED_UP]
            suiting = read_each(partial(self._read, query), due, LOOKED_UP_AT_ONCE)
            for node, suits in suiting.items():
                self.note(node, suits=suits)
        except PlacementError as error:
            LOG.debug("Cannot read the compute nodes that are new in nova's databases: %s", error)
        finally:
            self._lock.release()
        return True

    def _due(self, nodes: Sequence[str]) -> list[str]:
        now, never = self._known.clock(), (float("-inf"), 0.0)
        return [node for node in nodes if self._looked_up.get(node, never)[0] <= now]

    def _read(self, query: PlainQuery, node: str) -> bool:
        """Read a node alone; return whether it suits a query as far as amounts do not matter."""
        begun = self._known.clock()
        state = read_provider(self._client, node, *STATE)
        if state is None:
            self._known.forget(node)
            return False
        self._known.add([node])
        self._known.correct(state, begun)
        return query.traits_suit(state.traits) and query.aggregates_suit(state.aggregates)

    def note(self, node: str, *, suits: bool) -> None:
        """Note whether a node suits in Placement, which decides when it is looked up again."""
        _, wait = self._looked_up.get(node, (0.0, 0.0))
        wait = FIRST_WAIT if suits else min(LONGEST_WAIT, max(FIRST_WAIT, 2 * wait))
        self._looked_up[node] = self._known.clock() + wait, wait
