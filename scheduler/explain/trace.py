"""Noting a decision while it is made: on the path of every request, so that arrays are packed at most."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from copy import copy
import time

import numpy as np

from scheduler.claims.claim_session import ClaimSession
from scheduler.explain.record import (
    NO_BEST,
    CandidateSource,
    Consumed,
    DecisionRecord,
    HostData,
    Moment,
    Rejection,
    Round,
    StepCount,
    StepRecord,
    WeighedHosts,
)
from scheduler.filters.chain import Filtered, PreparedChain, Step
from scheduler.hosts.coordinates import ViewIndex, ViewPosition
from scheduler.hosts.view import HostView
from scheduler.logs import mask_credentials
from scheduler.objects import Selection
from scheduler.placement.candidates import Candidates
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.narrowing import Exclusion, Narrowed
from scheduler.selection.observer import DecisionObserver
from scheduler.weights.scores import Scores

#: Hosts of which all weights are kept, so that the best are looked for only when they are asked for.
MOST_WEIGHED = 500

#: Instances of a request whose answer is kept as it is.
MOST_SELECTIONS = 4

#: Runs of the filters that are kept of one request; a request for more instances is explained up to there.
MOST_ROUNDS = 1000

#: Hosts with a reason that are named in a sample.
NAMED = 3

CHARGED = ("numa_topology", "pci_stats")


class Trace(DecisionObserver):
    """Notes one decision.

    Attributes:
        record: What was noted so far.
    """

    def __init__(
        self,
        request: SchedulingRequest,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Begin to note the decision on a request.

        Args:
            request: The request.
            clock: Seconds that only grow; the one by which Placement's answers are stamped.
            wall_clock: Seconds since the epoch.
        """
        self._clock = clock
        self._started = self._marked = clock()
        self._claims: list[ClaimSession] = []
        self._error: BaseException | None = None
        request_id = getattr(request.context, "request_id", None) or ""
        self.record = DecisionRecord(request, request_id, wall_clock())

    # -- told by the manager ---------------------------------------------------------------------------------

    def mark(self, stage: str) -> None:
        """Note that a stage ends now; times of a stage that occurs twice are added up."""
        now = self._clock()
        times = self.record.times
        times[stage] = times.get(stage, 0.0) + now - self._marked
        self._marked = now

    def asked(self, queries: Sequence[Query]) -> None:
        """Note what Placement is to be asked."""
        self.record.queries = tuple(query.querystring for query in queries)
        self.mark("query")

    def answered(self, found: Candidates) -> None:
        """Note what Placement has answered."""
        self.record.candidates = CandidateSource(
            "coalesced" if found.requests > 1 else "placement",
            len(found.by_root),
            age=max(0.0, self._clock() - found.sent_at) if found.sent_at else 0.0,
            sent_at=found.sent_at,
            requests=found.requests,
            truncated=found.truncated,
            reason=found.reason,
            failed=found.failed and not found.rejection,
        )
        self.mark("placement")

    def mirrored(self, offered: int, age: float) -> None:
        """Note that the mirror names ``offered`` hosts, and the seconds since it was refreshed."""
        self.record.candidates = CandidateSource("mirror", offered, age=age)
        self.mark("mirror")

    def looked_up(self, hosts: HostView) -> None:
        """Note that the hosts were taken from the table alone."""
        self.record.candidates = CandidateSource("table", len(hosts))
        self.mark("table")

    def held(self, hosts: int) -> None:
        """Note that a redelivered request is answered with the ``hosts`` that its instances hold."""
        self.record.candidates = CandidateSource("held", hosts)
        self.mark("held")

    def claiming(self, claims: ClaimSession | None) -> None:
        """Note what claims for the request."""
        if claims is not None:
            self._claims.append(claims)

    def finish(self, error: BaseException | None) -> DecisionRecord:
        """Return the record of a request that was served, or ended with an error."""
        record = self.record
        self.mark("selection" if record.allowed is not None else "failed")
        self._split_claims(record.times)
        record.times["total"] = self._clock() - self._started
        for uuid in record.request.instance_uuids:
            events = tuple(event for claims in self._claims for event in claims.events_of(uuid))
            if events:
                record.claims[uuid] = events
        if error is not None:
            record.error = type(error).__name__, mask_credentials(str(error))
        return record

    def _split_claims(self, times: dict[str, float]) -> None:
        """Show the time of claims, which are made while hosts are selected, as a stage of their own."""
        claims = sum(each.seconds for each in self._claims)
        if claims and "selection" in times:
            times["claims"] = claims
            times["selection"] = max(0.0, times["selection"] - claims)

    # -- told by the selection -------------------------------------------------------------------------------

    def begin_ranking(
        self, offered: HostView, narrowed: Narrowed, chain: PreparedChain, request: SchedulingRequest
    ) -> None:
        """Note the hosts and the filters."""
        looks_at_candidates = bool(request.guest or request.pci_requests)
        self.record.candidates.known = len(offered)
        self.record.allowed = len(narrowed.hosts)
        self.record.excluded = tuple(map(_excluded, narrowed.excluded))
        self.record.best = NO_BEST
        self.record.later_counts = ()
        self.record.hosts = HostData(
            offered.table,
            offered.table_rows.astype(np.int32),
            tuple([(each.reason, each.hosts.positions.astype(np.int32)) for each in narrowed.excluded]),
            chain,
            request,
            offered if looks_at_candidates else None,
        )

    def filtered(self, number: int, hosts: HostView, filtered: Filtered) -> None:
        """Note the verdicts."""
        data = self.record.hosts
        if data is None:
            return
        if not len(filtered.hosts):
            self.record.rejections = tuple(
                each for step in filtered.steps for each in sampled_rejections(step)
            )
        if len(data.rounds) >= MOST_ROUNDS:
            self.record.later_counts = tuple(map(_step_count, filtered.steps, _ends(filtered)))
            return
        progress = data.request.progress
        if len(filtered.hosts) == len(hosts):
            data.rounds.append(Round(number, progress.instance_uuid, len(hosts), data.chain))
            return
        steps = tuple(map(_step_record, filtered.steps, _ends(filtered)))
        moment = Moment(copy(progress), hosts.known_instances(), hosts.pending_counters(), len(data.consumed))
        data.rounds.append(Round(number, progress.instance_uuid, len(hosts), data.chain, steps, moment))

    def weighed(self, number: int, hosts: HostView, scores: Scores, totals: np.ndarray) -> None:
        """Note the weights of the best hosts of the first instance."""
        if number:
            return
        few = len(totals) <= MOST_WEIGHED
        weighed = WeighedHosts(hosts.table, hosts.table_rows, totals, scores.frozen(copied=few))
        self.record.best = weighed if few else weighed.settled()

    def consumed(self, number: int, hosts: HostView, index: ViewIndex) -> None:
        """Note the chosen host, and what rules on NUMA cells and devices see of it from now on."""
        data = self.record.hosts
        if data is None:
            return
        values = {} if data.offered is None else {name: hosts.coded(name)[index] for name in CHARGED}
        data.consumed.append(Consumed(ViewPosition(int(hosts.positions[index])), values))

    def selected(self, selections: Sequence[Sequence[Selection]]) -> None:
        """Note hosts and alternates."""
        record = self.record
        record.selections = selections
        if len(selections) > MOST_SELECTIONS and record.chosen:
            record.selections = ()


def sampled_rejections(step: Step) -> list[Rejection]:
    """Return why a filter turned down the first hosts, the most frequent reason first."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for host, reason in step.reasons():
        names[reason].append(host.host)
    return [
        Rejection(step.filter.name, reason, tuple(names[reason][:NAMED]), len(names[reason]))
        for reason in sorted(names, key=lambda reason: -len(names[reason]))
    ]


def _excluded(each: Exclusion) -> Rejection:
    names = tuple([row.host for row in each.hosts.at(range(len(each.hosts))[:NAMED]).rows])
    return Rejection("", each.reason, names, len(each.hosts))


def _ends(filtered: Filtered) -> list[int]:
    """Return how many hosts each filter left."""
    return [len(step.hosts) for step in filtered.steps[1:]] + [len(filtered.hosts)]


def _step_count(step: Step, end: int) -> StepCount:
    return StepCount(step.filter.name, len(step.hosts), end)


def _step_record(step: Step, end: int) -> StepRecord:
    start = len(step.hosts)
    packed = None if end == start else np.packbits(step.kept)
    return StepRecord(step.filter, step.judge, start, end, packed)
