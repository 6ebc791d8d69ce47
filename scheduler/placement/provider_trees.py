"""Whether resource classes are provided by the roots of trees only, or by children or sharing providers too.

Where they are, a list of providers names the same hosts as allocation candidates do
(spec: placement-and-workflow 2.2). What was found holds for a minute from the questions on, which another
worker may have sent: trees change when computes are set up.
"""

from collections.abc import Callable, Collection
import threading
import time

import msgspec
from oslo_log import log

from scheduler.placement.answer import SHARING
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementError
from scheduler.placement.provider_lists import ProviderList, ProviderLists, list_path
from scheduler.placement.provider_usage import read_inventories
from scheduler.request.query import MICROVERSION

LOG = log.getLogger(__name__)

# Seconds for which an examination holds, and after which a failed one is repeated.
HOLDS = 60.0
RETRY = 10.0

# Seconds after which reading providers one by one is interrupted, and later continued: requests wait for it.
EXAMINED_AT_ONCE = 5.0

# Providers whose inventories are read one by one; for more, one question about all candidates is asked.
READ_SINGLY = 50

ALL_TREES = "/allocation_candidates?resources=MEMORY_MB%3A1"


class _Unfinished(PlacementError):
    """An examination was interrupted."""


class _Summary(msgspec.Struct, gc=False):
    resources: dict[str, msgspec.Raw]


class _Body(msgspec.Struct):
    provider_summaries: dict[str, _Summary]


class ProviderTrees:
    """Examines the provider trees when asked about them, once a minute at most. Any thread may use it."""

    def __init__(
        self, client: PlacementClient, lists: ProviderLists, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._lists = lists
        self._clock = clock
        self._lock = threading.Lock()
        self._due = float("-inf")
        self._roots = 0
        self._shared: frozenset[str] | None = None  # None: unknown
        self._classes_of_child: dict[tuple[str, int], frozenset[str]] = {}

    def provided_by_roots(self, classes: Collection[str]) -> bool:
        """Whether only roots of trees have these resource classes; False if that is unknown."""
        with self._lock:
            if self._clock() >= self._due:
                self._examine()
            return self._shared is not None and self._shared.isdisjoint(classes)

    @property
    def roots(self) -> int:
        """How many trees there were when they were examined last."""
        return self._roots

    def _examine(self) -> None:
        try:
            not_before = self._clock() - HOLDS
            everything = self._lists.fetch(list_path(), not_before)
            sharing = self._lists.fetch(list_path(required=[SHARING]), not_before)
            self._roots = len(everything.roots)
            self._shared = self._classes_of_children(everything.children) | self._classes_of_sharing(sharing)
            self._due = min(everything.sent_at, sharing.sent_at) + HOLDS
        except (PlacementError, msgspec.DecodeError) as error:
            self._shared = None
            self._due = self._clock() + RETRY
            LOG.warning(
                "The provider trees of Placement could not be examined: %s; queries ask for allocation "
                "candidates",
                error,
            )

    def _classes_of_sharing(self, found: ProviderList) -> frozenset[str]:
        return frozenset[str]().union(*(read_inventories(self._client, uuid) for uuid in found.uuids))

    def _classes_of_children(self, children: Collection[tuple[str, int]]) -> frozenset[str]:
        """Return all classes of which children have inventories; unchanged children are not read again.

        Raises:
            _Unfinished: Not all were read in time. What was read is kept.
        """
        known = self._classes_of_child
        self._classes_of_child = {child: known[child] for child in children if child in known}
        unknown = [child for child in children if child not in known]
        if len(unknown) > READ_SINGLY:
            summaries = self._read_all()
            self._classes_of_child |= {
                child: frozenset(summaries[child[0]].resources) for child in unknown if child[0] in summaries
            }
        end = self._clock() + EXAMINED_AT_ONCE
        for child in unknown:
            if child not in self._classes_of_child:
                if self._clock() >= end:
                    raise _Unfinished(f"{len(self._classes_of_child)} of {len(children)} children are known")
                self._classes_of_child[child] = frozenset(read_inventories(self._client, child[0]))
        return frozenset[str]().union(*self._classes_of_child.values())

    def _read_all(self) -> dict[str, _Summary]:
        """Return the summaries of all providers in trees with free memory."""
        reply = self._client.get(ALL_TREES, MICROVERSION, search=True)
        return msgspec.json.decode(reply.body, type=_Body).provider_summaries
