"""Keeping the mirror of Placement's compute nodes true, and answering queries from it.

One wide question in the background refreshes it. Between two of them, what this scheduler claims and releases
is added, and what Placement refuses is read again for the node concerned. Where much is refused the interval
becomes shorter; where most is refused, no query is answered from the mirror until it was refreshed.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
import threading
import time
from typing import Any, Protocol
from urllib.parse import quote

import msgspec
from oslo_log import log

from scheduler.background import BackgroundLoop
from scheduler.conf.derived import uses_mirror
from scheduler.logs import OutageLog
from scheduler.placement.answer import SHARING, AllocationCandidate
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent, PlacementUnreachable
from scheduler.placement.mirror import (
    Mirror,
    MirrorAnswer,
    plain_query,
    read_snapshot,
    shares_mirrored_class,
    wide_query,
)
from scheduler.placement.reply import Reply
from scheduler.request.query import MICROVERSION, Query

LOG = log.getLogger(__name__)

# A refresh that is this much later than planned makes the mirror too old to be used; in intervals.
TOO_OLD = 3.0

# Above this share of refused claims the interval is halved, down to MIN_INTERVAL seconds; below it, doubled.
REFUSED_OFTEN = 0.02
MIN_INTERVAL = 5.0

# Above this share of refused claims, of STORM_CLAIMS or more, queries go to Placement until the next refresh.
REFUSED_MOSTLY = 0.2
STORM_CLAIMS = 50

# Nodes that lost instances and are read again one by one; if there are more, the whole mirror is refreshed.
MOST_REREAD = 100

Allocations = Mapping[str, Mapping[str, Mapping[str, int]]]


class Refusal(Protocol):
    """A claim that Placement refused."""

    @property
    def refused_provider(self) -> str:
        """The provider that Placement names, or ""."""

    @property
    def refused_class(self) -> str:
        """The resource class that Placement names, or "": the provider does not exist."""


class CandidateMirror:
    """A mirror that is refreshed in the background. Any thread may use it; ``start`` it first."""

    def __init__(
        self,
        client: PlacementClient,
        interval: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        aggregates: Callable[[], frozenset[str] | None] = lambda: None,
    ) -> None:
        """Set up the mirror; nothing is asked yet.

        Args:
            client: Asks Placement.
            interval: Returns the seconds between two refreshes while few claims are refused.
            clock: Seconds that only grow.
            aggregates: Returns the aggregates of which the nodes are mirrored; None: all nodes.
        """
        self._aggregates = aggregates
        self._client = client
        self._configured_interval = interval
        self._clock = clock
        self._mirror = Mirror()
        self._lock = threading.Lock()
        self._shorter = 1.0
        self._claims = self._refusals = 0
        self._refreshed_at = float("-inf")
        self._doubtful: set[str] = set()
        self._sharing = False
        self._outage = OutageLog(
            LOG,
            "The mirror of Placement cannot be refreshed; queries go to Placement once it is too old",
            "The mirror of Placement is refreshed again",
            clock,
        )
        self._loop = BackgroundLoop("candidate-mirror", self.run_round)

    def start(self) -> None:
        """Begin to refresh. Until the first refresh is complete, queries go to Placement."""
        self._loop.start()

    def stop(self) -> None:
        """Stop refreshing."""
        self._loop.stop()

    def find(self, queries: Sequence[Query]) -> MirrorAnswer | None:
        """Return the compute nodes that may have what is asked for; None: ask Placement."""
        plain = plain_query(queries[0]) if len(queries) == 1 else None
        if plain is None or self._clock() - self._refreshed_at > TOO_OLD * self._configured_interval():
            return None
        return self._mirror.find(plain)

    # -- what happens to the nodes ---------------------------------------------------------------------------

    def claimed(self, allocations: Allocations) -> None:
        """Count a claim that Placement granted."""
        self._mirror.claimed(allocations)
        with self._lock:
            self._claims += 1

    def released(self, allocations: Allocations) -> None:
        """Count a claim that was given back."""
        self._mirror.released(allocations)

    def claimed_elsewhere(self, allocations: Allocations) -> None:
        """Count a claim that Placement granted to another scheduler."""
        self._mirror.claimed(allocations)

    def released_elsewhere(self, allocations: Allocations) -> None:
        """Count a claim that another scheduler has given back."""
        self._mirror.released(allocations)

    def refused(self, refusal: Refusal, candidate: AllocationCandidate) -> None:
        """Learn from a claim that Placement refused, and that another host may be granted."""
        provider, name = refusal.refused_provider, refusal.refused_class
        storm = self._count_refusal()
        if provider and not name:
            self._mirror.forget_provider(provider)
        elif provider:
            amount = candidate.allocations.get(provider, {}).get("resources", {}).get(name, 0)
            self._mirror.refuse(provider, name, amount)
            self.nodes_changed([provider])
        if storm:
            self._mirror.withdraw()
            self._loop.wake()
            LOG.warning(
                "Placement refused %d of the last %d claims; it is asked for candidates until the mirror is "
                "refreshed",
                self._refusals,
                self._claims + self._refusals,
            )

    def age(self) -> float:
        """Return the seconds since the question was sent that the mirror answers from."""
        return self._clock() - self._refreshed_at

    def nodes_changed(self, nodes: Collection[str]) -> None:
        """Read again what is used of nodes that lost instances or refused a claim."""
        if nodes:
            with self._lock:
                self._doubtful.update(nodes)
            self._loop.wake()

    def _count_refusal(self) -> bool:
        with self._lock:
            self._refusals += 1
            total = self._claims + self._refusals
            return total >= STORM_CLAIMS and self._refusals > REFUSED_MOSTLY * total

    # -- the refreshing thread -------------------------------------------------------------------------------

    def run_round(self) -> float:
        """Refresh if it is time to, else read doubtful nodes again. Return the seconds to wait."""
        due = self._refreshed_at + self._interval()
        with self._lock:
            doubtful, self._doubtful = self._doubtful, set()
        try:
            if self._clock() >= due or len(doubtful) > MOST_REREAD:
                self.refresh()
                due = self._refreshed_at + self._interval()
            else:
                self._reread(doubtful)
        except (PlacementSilent, msgspec.DecodeError) as error:
            self._outage.report_failure(error)
            return min(self._interval(), MIN_INTERVAL)
        self._outage.report_success()
        return max(0.0, due - self._clock())

    def refresh(self) -> None:
        """Ask the wide question and use its answer.

        Raises:
            PlacementSilent: There was no answer, or an error.
            msgspec.DecodeError: The answer cannot be read.
        """
        started, marker = self._clock(), self._mirror.mark()
        sharing = self._shares_mirrored_class()
        question = wide_query(self._aggregates() or ())
        snapshot = read_snapshot(self._get(f"/allocation_candidates?{question}", search=True).body)
        self._adapt_interval()
        self._refreshed_at = started
        if sharing:
            self._mirror.withdraw()
        else:
            self._mirror.publish(snapshot, marker)
        if sharing and not self._sharing:
            LOG.warning(
                "A provider shares a mirrored resource class with others: all queries go to Placement"
            )
        self._sharing = sharing

    def _shares_mirrored_class(self) -> bool:
        found = self._get(f"/resource_providers?required={SHARING}").data.get("resource_providers") or []
        for provider in found:
            path = f"/resource_providers/{quote(str(provider.get('uuid')), safe='')}/inventories"
            if shares_mirrored_class([SHARING], self._get(path).data.get("inventories") or {}):
                return True
        return False

    def _reread(self, nodes: Collection[str]) -> None:
        for node in nodes:
            usages = self._get(f"/resource_providers/{quote(node, safe='')}/usages").data.get("usages")
            if isinstance(usages, dict):
                self._mirror.set_used(node, usages)

    def _get(self, path: str, *, search: bool = False) -> Reply:
        reply = self._client.get(path, MICROVERSION, search=search)
        if reply.status not in {200, 404}:
            raise PlacementUnreachable(reply.summary)
        return reply

    def _interval(self) -> float:
        configured = self._configured_interval()
        return max(min(configured, MIN_INTERVAL), configured * self._shorter)

    def _adapt_interval(self) -> None:
        with self._lock:
            total = self._claims + self._refusals
            if total:
                often = self._refusals > REFUSED_OFTEN * total
                self._shorter = self._shorter / 2 if often else min(1.0, self._shorter * 2)
            self._claims = self._refusals = 0


class NoMirror:
    """The mirror of a scheduler that asks Placement for each request."""

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def find(self, queries: Sequence[Query]) -> MirrorAnswer | None:
        """Return None: Placement is asked."""

    def claimed(self, allocations: Allocations) -> None:
        """Ignore a claim."""

    def released(self, allocations: Allocations) -> None:
        """Ignore a release."""

    def claimed_elsewhere(self, allocations: Allocations) -> None:
        """Ignore a claim of another scheduler."""

    def released_elsewhere(self, allocations: Allocations) -> None:
        """Ignore a release by another scheduler."""

    def refused(self, refusal: Refusal, candidate: AllocationCandidate) -> None:
        """Ignore a refusal."""

    def age(self) -> float:
        """Return 0: there is nothing that could be old."""
        return 0.0

    def nodes_changed(self, nodes: Collection[str]) -> None:
        """Ignore a change."""


def make_mirror(
    conf: Any, client: PlacementClient, aggregates: Callable[[], frozenset[str] | None] = lambda: None
) -> CandidateMirror | NoMirror:
    """Make the mirror that ``[berth] candidates`` asks for, or ``[scheduler] driver = caching_scheduler``.

    Args:
        conf: The options.
        client: Asks Placement.
        aggregates: Returns the aggregates of which the nodes are mirrored; None: all nodes.
    """
    if uses_mirror(conf):
        return CandidateMirror(client, lambda: conf.berth.mirror_interval, aggregates=aggregates)
    return NoMirror()
