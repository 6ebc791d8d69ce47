"""Keeping the mirror of Placement's compute nodes true, and answering queries from it.

One wide question in the background refreshes it; of the workers of one daemon, one asks it for all. Between
two of them, what this scheduler claims and releases is added, and what Placement refuses is read again for
the node concerned. Where much is refused the interval becomes shorter; where most is refused, no query is
answered from the mirror until it was refreshed. Once no query came for long the mirror rests: it is refreshed
rarely, and the next query goes to Placement, as do those that follow it until the mirror was refreshed.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
import threading
import time
from typing import Any, Protocol

import msgspec
from oslo_log import log

from scheduler.background import BackgroundLoop
from scheduler.conf.derived import uses_mirror
from scheduler.logs import OutageLog
from scheduler.placement.answer import SHARING, AllocationCandidate
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.mirror import (
    Mirror,
    MirrorAnswer,
    plain_query,
    read_snapshot,
    shares_mirrored_class,
    wide_query,
)
from scheduler.placement.provider_lists import ProviderList, list_path
from scheduler.placement.provider_usage import read_inventories, read_used
from scheduler.placement.questions import QuestionRefused, Questions
from scheduler.placement.refresh_pace import MIN_INTERVAL, RefreshPace
from scheduler.request.query import Query
from scheduler.shared_answers import SharedAnswers

LOG = log.getLogger(__name__)

# A refresh that is this much later than planned makes the mirror too old to be used; in intervals.
TOO_OLD = 3.0

# Nodes that lost instances and are read again one by one; if there are more, the whole mirror is refreshed.
MOST_REREAD = 100

# Intervals without a query after which the mirror rests, and between two refreshes from then on. What
# schedulers decide meanwhile is kept in between.
RESTING_INTERVALS = 10

# How old another worker's answer may be that is used for a refresh, in intervals. So workers come into step
# whose refreshes are due at different moments.
SHARED_AGE = 0.5

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
        questions: Questions,
        interval: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        aggregates: Callable[[], frozenset[str] | None] = lambda: None,
    ) -> None:
        """Set up the mirror; nothing is asked yet.

        Args:
            questions: Asks Placement.
            interval: Returns the seconds between two refreshes while few claims are refused.
            clock: Seconds that only grow.
            aggregates: Returns the aggregates of which the nodes are mirrored; None: all nodes.
        """
        self._aggregates = aggregates
        self._client = questions.client
        self._questions = questions
        self._shared_age = SHARED_AGE if questions.shared else 0.0
        self._configured_interval = interval
        self._pace = RefreshPace(interval)
        self._clock = clock
        self._mirror = Mirror(clock)
        self._lock = threading.Lock()
        self._refreshed_at = float("-inf")
        self._withdrawn_at = float("-inf")
        self._wanted = self._resting = False
        self._wanted_at = clock()
        self._doubtful: dict[str, float] = {}  # nodes, and since when
        self._sharing = False
        self._outage = OutageLog(
            LOG,
            "The mirror of Placement cannot be refreshed; queries go to Placement once it is too old",
            "The mirror of Placement is refreshed again",
            clock,
        )
        self._tried = threading.Event()
        self._loop = BackgroundLoop("candidate-mirror", self.run_round)

    def start(self) -> None:
        """Begin to refresh. Until the first refresh is complete, queries go to Placement."""
        self._loop.start()

    def wait_until_tried(self, timeout: float) -> None:
        """Wait until the first refresh is complete or has failed, for at most ``timeout`` seconds.

        Requests that come before would each ask Placement, which then takes longer for the refresh, too.
        """
        if self._loop.running:
            self._tried.wait(timeout)

    def stop(self) -> None:
        """Stop refreshing."""
        self._loop.stop()

    def find(self, queries: Sequence[Query]) -> MirrorAnswer | None:
        """Return the compute nodes that may have what is asked for; None: ask Placement."""
        plain = plain_query(queries[0]) if len(queries) == 1 else None
        if plain is None or self._want():
            return None
        if self._clock() - self._refreshed_at > TOO_OLD * self._configured_interval():
            return None
        return self._mirror.find(plain)

    def _want(self) -> bool:
        """Note that the mirror is wanted, and return whether it rests. Then it is refreshed at once."""
        with self._lock:
            resting, first = self._resting, not self._wanted
            self._wanted, self._wanted_at = True, self._clock()
        if resting and first:
            self._loop.wake()
        return resting

    # -- what happens to the nodes ---------------------------------------------------------------------------

    def claimed(self, allocations: Allocations) -> None:
        """Count a claim that Placement granted."""
        self._mirror.claimed(allocations)
        self._pace.note_granted()

    def released(self, allocations: Allocations) -> None:
        """Count a claim that was given back."""
        self._mirror.released(allocations)

    def claimed_elsewhere(self, allocations: Allocations, age: float) -> None:
        """Count a claim that Placement granted to another scheduler, ``age`` seconds ago."""
        self._mirror.claimed(allocations, age)

    def released_elsewhere(self, allocations: Allocations, age: float) -> None:
        """Count a claim that another scheduler has given back, ``age`` seconds ago."""
        self._mirror.released(allocations, age)

    def refused(self, refusal: Refusal, candidate: AllocationCandidate) -> None:
        """Learn from a claim that Placement refused, and that another host may be granted."""
        provider, name = refusal.refused_provider, refusal.refused_class
        counts = self._pace.note_refused()
        if provider and not name:
            self._mirror.forget_provider(provider)
        elif provider:
            amount = candidate.allocations.get(provider, {}).get("resources", {}).get(name, 0)
            self._mirror.refuse(provider, name, amount)
            self.nodes_changed([provider])
        if counts.is_storm:
            self._withdrawn_at = self._clock()
            self._mirror.withdraw()
            self._loop.wake()
            LOG.warning(
                "Placement refused %d of the last %d claims; it is asked for candidates until the mirror is "
                "refreshed",
                counts.refused,
                counts.total,
            )

    def age(self) -> float:
        """Return the seconds since the question was sent that the mirror answers from."""
        return self._clock() - self._refreshed_at

    def nodes_changed(self, nodes: Collection[str]) -> None:
        """Read again what is used of nodes that lost instances or refused a claim."""
        if nodes:
            with self._lock:
                self._doubtful |= dict.fromkeys(nodes, self._clock())
            self._loop.wake()

    # -- the refreshing thread -------------------------------------------------------------------------------

    def run_round(self) -> float:
        """Refresh if it is time to, else read doubtful nodes again. Return the seconds to wait."""
        try:
            return self._run_round()
        finally:
            self._tried.set()

    def _run_round(self) -> float:
        if self._may_rest():
            return self._refreshed_at + RESTING_INTERVALS * self._pace.interval() - self._clock()
        with self._lock:
            noted, self._doubtful = self._doubtful, {}
        try:
            doubtful = self._not_read_since(noted)
            if len(doubtful) > MOST_REREAD:
                self.refresh(max(doubtful.values()))
            elif self._is_withdrawn() or self._clock() >= self._refreshed_at + self._pace.interval():
                self.refresh()
            self._reread(self._not_read_since(doubtful))
        except (PlacementSilent, QuestionRefused, msgspec.DecodeError) as error:
            self._outage.report_failure(error)
            with self._lock:
                self._doubtful = noted | self._doubtful
            return min(self._pace.interval(), MIN_INTERVAL)
        self._outage.report_success()
        return max(0.0, self._refreshed_at + self._pace.interval() - self._clock())

    def _is_withdrawn(self) -> bool:
        """Return whether most claims were refused since the question of the last refresh was sent."""
        return self._refreshed_at < self._withdrawn_at

    def _may_rest(self) -> bool:
        """Return whether a refresh that is due need not be now; from then on the mirror rests."""
        now, resting_time = self._clock(), RESTING_INTERVALS * self._pace.interval()
        is_due = self._pace.interval() <= now - self._refreshed_at < resting_time
        with self._lock:
            active = self._wanted or self._pace.has_claims
            may = is_due and not active and now - self._wanted_at >= resting_time
            self._resting |= may
        return may

    def refresh(self, not_before: float | None = None) -> None:
        """Ask the wide question, or take the answer that another worker got, and use it.

        Args:
            not_before: When it must have been asked at the earliest; None: within a part of the interval.

        Raises:
            PlacementSilent: There was no answer, or an error.
            QuestionRefused: The answer to a question is an error.
            msgspec.DecodeError: The answer cannot be read.
        """
        if not_before is None:
            not_before = self._clock() - self._shared_age * self._pace.interval()
        not_before = max(not_before, self._withdrawn_at)
        self._mirror.drop_changes(not_before)
        sharing = self._shares_mirrored_class(not_before)
        question = wide_query(self._aggregates() or ())
        answer = self._questions.ask(f"/allocation_candidates?{question}", not_before)
        snapshot = read_snapshot(answer.body)
        self._pace.adapt()
        self._refreshed_at = answer.asked_at
        if sharing:
            self._mirror.withdraw()
        elif not self._is_withdrawn():
            self._mirror.publish(snapshot, answer.asked_at)
        with self._lock:
            self._wanted = self._resting = False
        if sharing and not self._sharing:
            LOG.warning(
                "A provider shares a mirrored resource class with others: all queries go to Placement"
            )
        self._sharing = sharing

    def _shares_mirrored_class(self, not_before: float) -> bool:
        answer = self._questions.ask(list_path(required=[SHARING]), not_before)
        for provider in ProviderList(answer.body, answer.asked_at).uuids:
            if shares_mirrored_class([SHARING], read_inventories(self._client, provider)):
                return True
        return False

    def _not_read_since(self, doubtful: Mapping[str, float]) -> Mapping[str, float]:
        """Return those of the nodes that were read last before they became doubtful."""
        return {node: since for node, since in doubtful.items() if since >= self._refreshed_at}

    def _reread(self, nodes: Collection[str]) -> None:
        for node in nodes:
            asked_at = self._clock()
            used = read_used(self._client, node)
            if used is not None:
                self._mirror.set_used(node, used, asked_at)


class NoMirror:
    """The mirror of a scheduler that asks Placement for each request."""

    def start(self) -> None:
        """Do nothing."""

    def wait_until_tried(self, timeout: float) -> None:
        """Return at once."""

    def stop(self) -> None:
        """Do nothing."""

    def find(self, queries: Sequence[Query]) -> MirrorAnswer | None:
        """Return None: Placement is asked."""

    def claimed(self, allocations: Allocations) -> None:
        """Ignore a claim."""

    def released(self, allocations: Allocations) -> None:
        """Ignore a release."""

    def claimed_elsewhere(self, allocations: Allocations, age: float) -> None:
        """Ignore a claim of another scheduler."""

    def released_elsewhere(self, allocations: Allocations, age: float) -> None:
        """Ignore a release by another scheduler."""

    def refused(self, refusal: Refusal, candidate: AllocationCandidate) -> None:
        """Ignore a refusal."""

    def age(self) -> float:
        """Return 0: there is nothing that could be old."""
        return 0.0

    def nodes_changed(self, nodes: Collection[str]) -> None:
        """Ignore a change."""


def make_mirror(
    conf: Any,
    client: PlacementClient,
    answers: SharedAnswers,
    aggregates: Callable[[], frozenset[str] | None] = lambda: None,
) -> CandidateMirror | NoMirror:
    """Make the mirror that ``[berth] candidates`` asks for, or ``[scheduler] driver = caching_scheduler``.

    Args:
        conf: The options.
        client: Asks Placement.
        answers: What Placement answered to other workers.
        aggregates: Returns the aggregates of which the nodes are mirrored; None: all nodes.
    """
    if uses_mirror(conf):
        questions = Questions(client, answers)
        return CandidateMirror(questions, lambda: conf.berth.mirror_interval, aggregates=aggregates)
    return NoMirror()
