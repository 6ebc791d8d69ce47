"""Reading the hosts that were chosen by the mirror, right before they are claimed.

A generation alone proves nothing: a provider that is deleted and created again comes back at the same one,
and aggregates that are set with a microversion below 1.19 raise none. So the provider is read with the time
of its creation or last change: a provider that was last changed before the mirror read it is still the same
one. If the time is later, or unknown, the traits are read. Only they are, if a write of this process
would hide an older time. The aggregates are read if the query names any. A host that does not suit, or has
another generation, is read again, corrected in the mirror, and judged again.

Placement can answer the whole question for one provider (``GET /resource_providers?uuid=...&required=...``),
but it looks through all providers with the traits and aggregates first: with Placement 16 on SQLite 4 times
the CPU of a read of the provider at 1,000 hosts, and 9 times at 5,000.
"""

from collections.abc import Callable, Collection, Mapping
import math
from typing import Any
from urllib.parse import urlencode

from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import MirrorStale
from scheduler.placement.mirror import Mirror, MirrorAnswer
from scheduler.placement.plain_query import PlainQuery, mismatch
from scheduler.placement.providers import CLOCKS, STATE, ProviderState, read_age, read_list, read_provider
from scheduler.placement.read_each import read_each

# Milliseconds of Placement's CPU to read one provider, or its aggregates; and for a list with conditions: at
# least, and for each provider (measured with Placement 16; only their proportion matters).
SINGLE, LIST, LISTED = 3.0, 8.0, 0.025

# Hosts that are read at the same time.
AT_ONCE = 4

# Hosts of one request that may turn out to have changed; then Placement is asked.
MOST_REFUSED = 8


class WinnerCheck:
    """Checks the hosts of one request."""

    def __init__(self, mirror: Mirror, client: PlacementClient, answer: MirrorAnswer, context: Any) -> None:
        """Check nothing yet.

        Args:
            mirror: What the hosts were chosen by.
            answer: What the hosts are chosen from. It gets to know what a list says of its other hosts.
            context: The request context whose id is sent along.
        """
        self._mirror = mirror
        self._client = client
        self._answer = answer
        self._query = answer.query
        self._context = context
        self._refused = 0

    def __call__(self, nodes: Collection[str]) -> Mapping[str, str]:
        """Return why nodes may not be claimed, by uuid; a node that may be claimed is not named.

        Raises:
            PlacementError: Placement does not answer, or too many hosts have changed.
        """
        reasons = {uuid: reason for uuid, reason in self._read(list(nodes)).items() if reason}
        self._refused += len(reasons)
        if self._refused > MOST_REFUSED:
            raise MirrorStale(f"{self._refused} hosts have changed in Placement since the mirror was read")
        return reasons

    def _read(self, nodes: list[str]) -> dict[str, str]:
        each = SINGLE * (2 if self._query.aggregates else 1)
        if len(nodes) == 1 or each * len(nodes) <= LIST + LISTED * len(self._mirror):
            return read_each(
                lambda uuid: self._judge(uuid, self._known(uuid), self._read_alone), nodes, AT_ONCE
            )
        states = {uuid: self._known(uuid) for uuid in nodes}
        listed = read_list(self._client, suitable_path(self._query), self._context)
        self._answer.offered = offered = {one.uuid: one.generation for one in listed}
        return read_each(
            lambda uuid: self._judge(uuid, states[uuid], lambda one: offered.get(one.uuid)), nodes, AT_ONCE
        )

    def _read_alone(self, known: ProviderState) -> int | None:
        """Return the generation of a node with suitable traits and aggregates; None for any other."""
        unchanged = False
        if known.since > -math.inf:
            age = read_age(self._client, known.uuid, self._context)
            if age is None or age[0] != known.generation:
                return None
            unchanged = age[1] > self._mirror.clock() - known.since + CLOCKS
        query = self._query
        if unchanged and not query.aggregates:
            return known.generation
        whats = (*(() if unchanged else ("traits",)), *(("aggregates",) if query.aggregates else ()))
        state = read_provider(self._client, known.uuid, *whats, context=self._context)
        if state is None or not (unchanged or query.traits_suit(state.traits)):
            return None
        return state.generation if query.aggregates_suit(state.aggregates) else None

    def _known(self, uuid: str) -> ProviderState | None:
        return self._mirror.state(uuid, self._query)

    def _judge(
        self, uuid: str, known: ProviderState | None, generation: Callable[[ProviderState], int | None]
    ) -> str:
        """Return why a node may not be claimed; "" if it may.

        Args:
            known: What was known of it before its generation was requested, since own writes raise it.
                It may have been corrected since the node was chosen.
            generation: Returns its generation if its traits and aggregates suit, else None.
        """
        if known is None or generation(known) != known.generation:
            begun = self._mirror.clock()
            known = read_provider(self._client, uuid, *STATE, context=self._context)
            if known is None:
                self._mirror.forget(uuid)
                return "its resource provider does not exist any more"
            self._mirror.correct(known, begun)
        reason = mismatch(self._query, known)
        return f"changed in Placement since the mirror was read: {reason}" if reason else ""


def suitable_path(query: PlainQuery) -> str:
    """Return the path of the list of nodes whose traits and aggregates suit a query."""
    required = [*sorted(query.required), *(f"!{trait}" for trait in sorted(query.forbidden))]
    pairs = [("required", ",".join(required))] if required else []
    pairs += [("member_of", f"in:{','.join(sorted(any_of))}") for any_of in query.member_of]
    if query.not_member_of:
        pairs.append(("member_of", f"!in:{','.join(sorted(query.not_member_of))}"))
    return f"/resource_providers?{urlencode(pairs)}" if pairs else "/resource_providers"
