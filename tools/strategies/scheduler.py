"""One simulated scheduler: Berth's decisions, with models of what it asks and tells."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
import random
from typing import TYPE_CHECKING, Any

from scheduler.claims.result import ClaimResult, Outcome
from scheduler.errors import NoValidHost
from scheduler.filters.chain import FilterChain
from scheduler.hosts.coordinates import TableRow
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.view import CandidateLists, HostView
from scheduler.numa.fit import Fitter
from scheduler.placement.answer import AllocationCandidate
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rules import load_filters, load_weighers
from scheduler.selection.driver import FilterDriver
from scheduler.stream.membership import Membership
from scheduler.stream.owners import Owners
from scheduler.stream.records import Member, Record
from scheduler.stream.shared_decisions import LocalState, SharedDecisions
from tools.bench import requests
from tools.no_mirror import NoMirror
from tools.strategies.cloud import AMOUNTS, FLAVOR, Cloud
from tools.strategies.stream import Events, SimulatedStream

if TYPE_CHECKING:
    from tools.strategies.run import Scenario

_REFUSED = ClaimResult(Outcome.REFUSED, "no room")


class ClaimsInFlight:
    """The claims that all schedulers have under way.

    Attributes:
        overlapping: Claims that began while another scheduler had one under way on the same host.
    """

    def __init__(self) -> None:
        self.overlapping = 0
        self._of: dict[TableRow, Counter[str]] = {}

    def begin(self, row: TableRow, scheduler: str) -> None:
        """Note that a claim is sent."""
        senders = self._of.setdefault(row, Counter())
        self.overlapping += any(number for sender, number in senders.items() if sender != scheduler)
        senders[scheduler] += 1

    def end(self, row: TableRow, scheduler: str) -> None:
        """Note that a claim is answered."""
        self._of[row][scheduler] -= 1


class SimulatedScheduler:
    """A scheduler with pending placements, a membership and slices of its own.

    Attributes:
        sender: Its identity in the stream.
        pending: What it has decided, and what it knows of others' decisions.
    """

    def __init__(
        self,
        name: str,
        scenario: "Scenario",
        slices: bool,
        cloud: Cloud,
        stream: SimulatedStream,
        claims: ClaimsInFlight,
        events: Events,
        rng: random.Random,
    ) -> None:
        """Join the stream; nothing is decided yet."""
        self.sender = name
        self.pending = PendingPlacements(clock=events.now)
        self._scenario = scenario
        self._cloud = cloud
        self._claims = claims
        self._events = events
        self._rng = rng
        self._membership = Membership(Member(name), events.now)
        owners = Owners(self._membership, lambda: True, lambda: slices)
        state = LocalState(self.pending, cloud.table, NoMirror())
        self._sharing = SharedDecisions(state, partial(stream.publish, name))
        self.pending.listener = self._sharing
        conf = make_conf(scenario.fill_first)
        self._driver = FilterDriver(
            conf, FilterChain(load_filters.load(conf)), load_weighers.load(conf), Fitter(), owned=owners.owned
        )
        stream.join(self)

    # -- the stream ------------------------------------------------------------------------------------------

    def receive(self, record: Record) -> None:
        """Learn of a record of another scheduler."""
        if record.about:
            self._membership.update(record.about)
        else:
            self._membership.hear(record.sender)
            self._sharing.apply(record)

    def about(self) -> Member:
        """Return what a beat says."""
        return self._membership.own

    # -- requests --------------------------------------------------------------------------------------------

    def serve(self, instance: str) -> bool:
        """Place an instance. Return whether a host was found."""
        asked_at, rows = self._events.now(), self._cloud.with_room()
        self._events.sleep(self._scenario.question)
        table = self._cloud.table()
        lists = CandidateLists(lambda position: (_candidate(table.rows[rows[position]].uuid),))
        view = HostView.of(table, rows, lists, None, self.pending, asked_at)
        self._events.sleep(self._scenario.choice)
        request = SchedulingRequest.of(requests.plain(flavor=FLAVOR), [instance], with_alternates=True)
        try:
            self._driver.select(view, request, _Claims(self))
        except NoValidHost:
            return False
        return True

    def claim(self, instance: str, candidate: AllocationCandidate) -> bool:
        """Claim a candidate. Return whether it was granted."""
        row = self._cloud.table().row_of_uuid[candidate.root]
        self._claims.begin(row, self.sender)
        self._events.sleep(self._scenario.claim * self._rng.uniform(0.5, 1.5))
        self._claims.end(row, self.sender)
        granted = self._cloud.claim(instance, row, self._events.now() + self._scenario.report)
        if granted:
            self._sharing.claimed(instance, candidate.allocations)
        return granted

    def settle(self, reported: list[str]) -> None:
        """Learn that computes have reported instances."""
        placements = map(self.pending.get, reported)
        self.pending.settle(each for each in placements if each is not None)


class _Claims:
    """The claims of one request."""

    def __init__(self, scheduler: SimulatedScheduler) -> None:
        self._scheduler = scheduler

    def claim(self, instance_uuid: str, candidate: Any) -> ClaimResult:
        granted = self._scheduler.claim(instance_uuid, candidate)
        return ClaimResult(Outcome.CLAIMED) if granted else _REFUSED

    def claim_many(self, candidates: Mapping[str, Any]) -> dict[str, ClaimResult]:
        return {uuid: self.claim(uuid, candidate) for uuid, candidate in candidates.items()}


def make_conf(fill_first: bool) -> Any:
    """Return the options of a scheduler: only free memory matters for the best host."""
    weights = dict.fromkeys(("cpu", "disk", "io_ops"), 0.0) | {"ram": -1.0 if fill_first else 1.0}
    return requests.make_conf(**{f"{name}_weight_multiplier": value for name, value in weights.items()})


def _candidate(root: str) -> AllocationCandidate:
    return AllocationCandidate.of(root, (root,), {root: {"resources": AMOUNTS}}, {"": [root]})
