"""Reading the hosts that were chosen by the mirror, right before they are claimed.

A host whose generation is the expected one has not changed since it was read, except for allocations that
were removed. Any other host is read again, corrected in the mirror, and judged again.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import MirrorStale
from scheduler.placement.mirror import Mirror
from scheduler.placement.plain_query import PlainQuery, mismatch
from scheduler.placement.providers import ProviderState, read_generation, read_list, read_state
from scheduler.placement.read_each import read_each

# Milliseconds of Placement's CPU for one provider, and for a list: at least, and for each provider in it
# (measured with Placement 16; only their proportion matters).
SINGLE, LIST, LISTED = 5.0, 1.0, 0.031

# Hosts that are read at the same time.
AT_ONCE = 4

# Hosts of one request that may turn out to have changed; then Placement is asked.
MOST_REFUSED = 8


class WinnerCheck:
    """Checks the hosts of one request."""

    def __init__(
        self, mirror: Mirror, client: PlacementClient, query: PlainQuery, context: Any, path: str
    ) -> None:
        """Check nothing yet.

        Args:
            mirror: What the hosts were chosen by.
            query: What they are chosen for.
            context: The request context whose id is sent along.
            path: The path of the list of all nodes.
        """
        self._path = path
        self._mirror = mirror
        self._client = client
        self._query = query
        self._context = context
        self._refused = 0

    def __call__(self, nodes: Collection[str]) -> Mapping[str, str]:
        """Return why nodes may not be claimed, by uuid; a node that may be claimed is not named.

        Raises:
            PlacementError: Placement does not answer, or too many hosts have changed.
        """
        found = {uuid: reason for uuid, reason in self._read(list(nodes)).items() if reason}
        self._refused += len(found)
        if self._refused > MOST_REFUSED:
            raise MirrorStale(f"{self._refused} hosts have changed in Placement since the mirror was read")
        return found

    def _read(self, nodes: list[str]) -> dict[str, str]:
        if len(nodes) == 1 or SINGLE * len(nodes) <= LIST + LISTED * len(self._mirror):
            generation = partial(read_generation, self._client, context=self._context)
            return read_each(lambda uuid: self._judge(uuid, self._known(uuid), generation), nodes, AT_ONCE)
        known = {uuid: self._known(uuid) for uuid in nodes}
        listed = read_list(self._client, self._path, self._context)
        generations = {one.uuid: one.generation for one in listed}
        return read_each(lambda uuid: self._judge(uuid, known[uuid], generations.get), nodes, AT_ONCE)

    def _known(self, uuid: str) -> ProviderState | None:
        return self._mirror.state(uuid, self._query)

    def _judge(self, uuid: str, known: ProviderState | None, generation: Callable[[str], int | None]) -> str:
        """Return why a node may not be claimed; "" if it may.

        Args:
            known: What was known of it before its generation was requested, since own writes raise it.
                It may have been corrected since the node was chosen.
            generation: Returns its generation.
        """
        if known is None or generation(uuid) != known.generation:
            begun = self._mirror.clock()
            known = read_state(self._client, uuid, self._context)
            if known is None:
                self._mirror.forget(uuid)
                return "its resource provider does not exist any more"
            self._mirror.correct(known, begun)
        reason = mismatch(self._query, known)
        return f"changed in Placement since the mirror was read: {reason}" if reason else ""
