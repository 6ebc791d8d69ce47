"""Claiming the best host that is granted, host by host and several at once."""

import logging

import numpy as np
import pytest

from scheduler import objects
from scheduler.errors import AllocationUpdateFailed, NoValidHost, PlacementUnavailable
from scheduler.filters.chain import FilterChain
from scheduler.hosts.pending import AMOUNTS, PendingPlacements
from scheduler.hosts.view import HostView
from scheduler.placement.answer import AllocationCandidate, Usage
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Written
from scheduler.rules import load_weighers
from scheduler.selection.consume import consumed_amounts
from scheduler.selection.host_claiming import HostClaiming
from scheduler.selection.ranking import Ranking
from scheduler.weights.scores import PreparedWeighers
from tests.builders import make_table, make_view, uuid_of
from tests.support.clock import Clock
from tests.unit.selection.requests import (
    REFUSED,
    FakeClaims,
    host_with_candidate,
    make_candidate,
    make_conf,
    make_request,
    make_spec,
)

NEXT_HOST = "Claim for instance %s on host %s refused (no room); trying the next host"


def claiming_on(hosts, claims, **options):
    return claiming_in(make_view(hosts), claims, **options)


def claiming_in(view, claims, ram_weight_multiplier=1.0, spec=None, **options):
    conf = make_conf(
        weight_classes=["nova.scheduler.weights.ram.RAMWeigher"], ram_weight_multiplier=ram_weight_multiplier
    )
    request = make_request(spec)
    prepared = FilterChain(()).prepare(request), PreparedWeighers(load_weighers.load(conf), request)
    ranking = Ranking(*prepared, view, request, conf.filter_scheduler)
    return ranking, HostClaiming(ranking, claims, **options)


def two_hosts():
    """h1 is better than h2."""
    return [host_with_candidate("h1").ram(9000), host_with_candidate("h2").ram(8000)]


def claim_best(claiming, uuid):
    """Plan a host for an instance and claim it, until it is granted."""
    while True:
        chosen = claiming.plan(uuid)
        if not claiming.claim():
            return chosen


def name_of(ranking, chosen):
    return ranking.hosts.row(chosen[0]).host


def info_lines(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]


@pytest.mark.parametrize(
    ("answers", "chosen", "other", "logged"),
    [({}, "h1", "h2", []), ({uuid_of("h1"): REFUSED}, "h2", "h1", [NEXT_HOST % ("i1", "h1")])],
    ids=["granted", "refused"],
)
def test_a_refused_claim_is_logged_with_its_cause_and_the_next_host_is_claimed(
    caplog, answers, chosen, other, logged
):
    caplog.set_level(logging.INFO)
    ranking, claiming = claiming_on(two_hosts(), FakeClaims(answers))
    assert name_of(ranking, claim_best(claiming, "i1")) == chosen
    assert info_lines(caplog) == logged
    assert [ranking.hosts.row(index).host for index in claiming.others()] == [other]


def test_claims_refused_together_are_logged_and_their_hosts_come_last(caplog):
    caplog.set_level(logging.INFO)
    ranking, claiming = claiming_on(two_hosts(), FakeClaims({uuid_of("h1"): REFUSED}))
    for uuid in ("i1", "i2"):
        claiming.plan(uuid)
    assert claiming.claim() == ["i1", "i2"]
    assert info_lines(caplog) == [NEXT_HOST % (uuid, "h1") for uuid in ("i1", "i2")]
    assert [ranking.hosts.row(index).host for index in ranking.best_first()] == ["h2", "h1"]


def test_a_host_that_is_mapped_to_no_cell_is_not_claimed(caplog):
    caplog.set_level(logging.DEBUG)
    claims = FakeClaims()
    ranking, claiming = claiming_on(two_hosts(), claims, is_mapped=lambda host: host != "h1")
    assert name_of(ranking, claim_best(claiming, "i1")) == "h2"
    assert claims.tried == [("i1", uuid_of("h2"))]
    assert "Host h1 has no host mapping; trying the next host" in caplog.text


@pytest.mark.parametrize(
    ("outcome", "error", "text"),
    [
        (Outcome.CHANGED, AllocationUpdateFailed, None),
        (Outcome.UNSENT, PlacementUnavailable, "Placement is unavailable"),
    ],
    ids=["another writer", "Placement away"],
)
def test_a_refusal_that_holds_for_all_hosts_ends_the_request(outcome, error, text):
    claims = FakeClaims({uuid_of("h1"): Written(outcome, reason="cause")})
    _, claiming = claiming_on(two_hosts(), claims)
    with pytest.raises(error, match=text):
        claim_best(claiming, "i1")
    assert len(claims.tried) == 1


def on_disks(name, disks):
    """A host with a candidate that takes its disk from another provider."""
    host = host_with_candidate(name)
    root = host.columns["uuid"]
    allocations = {root: {"resources": {"VCPU": 2}}, disks: {"resources": {"DISK_GB": 4}}}
    host.candidates[:] = [AllocationCandidate.of(root, (root, disks), allocations, {})]
    return host


@pytest.mark.parametrize(
    ("pools", "tried"),
    [(["pool"] * 3, 1), (["pool", "pool", "another"], 3)],
    ids=["all share it", "one has another"],
)
def test_a_provider_that_all_hosts_share_is_tried_once(caplog, pools, tried):
    hosts = [on_disks(f"h{number}", pool) for number, pool in enumerate(pools)]
    refusal = Written(Outcome.REFUSED, reason="no room", resource_class="DISK_GB", provider="pool")
    claims = FakeClaims({host.columns["uuid"]: refusal for host in hosts})
    _, claiming = claiming_on(hosts, claims)
    with pytest.raises(NoValidHost):
        claim_best(claiming, "i1")
    assert len(claims.tried) == tried
    assert ("by provider pool, which all hosts share" in caplog.text) is (tried == 1)


def test_a_planned_claim_leaves_less_headroom_to_the_next_instance():
    usages = {uuid_of("h1"): {"VCPU": Usage(4, 1)}}.get
    ranking, claiming = claiming_on(two_hosts(), FakeClaims(), usages=usages)
    assert [name_of(ranking, claiming.plan(uuid)) for uuid in ("i1", "i2")] == ["h1", "h2"]


@pytest.mark.parametrize(
    ("refused_class", "tried"),
    [("", 1), ("DISK_GB", 2), ("VCPU", 1)],
    ids=["no class", "class that differs", "class that is alike"],
)
def test_another_candidate_of_a_host_is_tried_only_if_the_refusal_may_not_hold_for_it(refused_class, tried):
    host = host_with_candidate("h1")
    host.candidate(make_candidate(uuid_of("h1"), VCPU=2, DISK_GB=1))
    claims = FakeClaims(
        {uuid_of("h1"): Written(Outcome.REFUSED, reason="no room", resource_class=refused_class)}
    )
    _, claiming = claiming_on([host], claims)
    with pytest.raises(NoValidHost):
        claim_best(claiming, "i1")
    assert len(claims.tried) == tried


def test_without_claims_the_best_host_is_chosen_without_a_candidate():
    ranking, claiming = claiming_on(two_hosts(), None)
    chosen = claim_best(claiming, "i1")
    assert (name_of(ranking, chosen), chosen[1]) == ("h1", None)


class TestHostsFilledMeanwhile:
    """Where the fullest host is the best: hosts that Placement offers, and that others fill after it is asked."""

    AMOUNTS = consumed_amounts(make_request().flavor)
    ASKED_AT = 1000.0

    @pytest.fixture
    def clock(self):
        return Clock(self.ASKED_AT + 1)

    @pytest.fixture
    def pending(self, clock):
        return PendingPlacements(clock)

    def claiming(self, pending, claims, free=(1100, 1200), filled=("h1",), asked_at=ASKED_AT):
        """Hosts with so much memory; others have put two instances on some of them."""
        hosts = [host_with_candidate(f"h{n}").ram(each, total=8000) for n, each in enumerate(free, 1)]
        table, amounts = make_table(hosts), np.array([self.AMOUNTS[name] for name in AMOUNTS])
        for name in filled:
            for number in (1, 2):
                pending.add(f"{name} {number}", table, table.row_of_uuid[uuid_of(name)], amounts)
        candidates = [host.candidates for host in hosts]
        view = HostView.of(table, np.arange(len(hosts)), candidates, None, pending, asked_at)
        return claiming_in(view, claims, ram_weight_multiplier=-1.0)

    @pytest.mark.parametrize(
        ("free", "filled", "refusing", "tried", "others"),
        [
            ((1100, 1200), ["h1"], ["h2"], ["h2", "h1"], ["h2"]),
            ((1100, 1200, 1300), ["h1"], [], ["h2"], ["h3", "h1"]),
            ((1100, 1200), ["h1", "h2"], [], ["h1"], ["h2"]),
            ((1600, 1700), ["h1"], [], ["h1"], ["h2"]),
        ],
        ids=["the other refuses", "last alternates", "no others", "room is left"],
    )
    def test_they_are_tried_after_those_with_room(self, pending, free, filled, refusing, tried, others):
        claims = FakeClaims({uuid_of(name): REFUSED for name in refusing})
        ranking, claiming = self.claiming(pending, claims, free, filled)
        assert name_of(ranking, claim_best(claiming, "i1")) == tried[-1]
        assert [host for _, host in claims.tried] == [uuid_of(name) for name in tried]
        assert [ranking.hosts.row(index).host for index in claiming.others()] == others

    @pytest.mark.parametrize(
        ("granted_at", "chosen"),
        [(ASKED_AT - 1, "h1"), (ASKED_AT + 1, "h2"), (None, "h2")],
        ids=["before", "after", "being claimed"],
    )
    def test_what_was_granted_before_placement_was_asked_has_left_the_room_that_it_offers(
        self, pending, clock, granted_at, chosen
    ):
        """Whatever computes report: without races hosts are tried in the order of their weights."""
        ranking, claiming = self.claiming(pending, FakeClaims())
        if granted_at is not None:
            clock.now = granted_at
            pending.grant("h1 1")
            pending.grant("h1 2")
        assert name_of(ranking, claim_best(claiming, "i1")) == chosen

    @pytest.mark.parametrize(
        ("answer", "asked_at", "order"),
        [
            (REFUSED, ASKED_AT, ["h2", "h1"]),
            (REFUSED, ASKED_AT + 2, ["h1", "h2"]),
            (Written(Outcome.CONTENDED, reason="busy"), ASKED_AT, ["h1", "h2"]),
        ],
        ids=["since", "before", "not for want of room"],
    )
    def test_a_host_that_refused_another_request_since_placement_was_asked_comes_last(
        self, pending, answer, asked_at, order
    ):
        _, claiming = self.claiming(pending, FakeClaims({uuid_of("h1"): answer}), filled=())
        claim_best(claiming, "another")
        pending.remove(["another"])
        ranking, claiming = self.claiming(pending, FakeClaims(), filled=(), asked_at=asked_at)
        hosts = [claim_best(claiming, "i1")[0], *claiming.others()]
        assert [ranking.hosts.row(index).host for index in hosts] == order

    def test_the_next_request_learns_what_this_one_was_granted(self, pending):
        _, claiming = self.claiming(pending, FakeClaims(), free=(600,), filled=())
        claim_best(claiming, "i1")
        h1 = uuid_of("h1")
        assert pending.claims.has_newer(h1, self.ASKED_AT)
        assert not pending.claims.has_newer(h1, self.ASKED_AT + 1)


def test_the_candidate_that_is_claimed_says_which_devices_are_taken():
    host = host_with_candidate("h1")
    node = host.columns["uuid"]
    candidates = [make_candidate(node, {"g": [f"p{number}"]}, VCPU=number) for number in (2, 1)]
    pending, table = PendingPlacements(), make_table([host])
    view = HostView.of(table, np.arange(1), [candidates], None, pending)

    device = objects.InstancePCIRequest(count=1, spec=[{"vendor_id": "8086"}], request_id="g")
    spec = make_spec(
        pci_requests=objects.InstancePCIRequests(requests=[device]),
        requested_resources=[objects.RequestGroup(requester_id="g")],
    )
    _, claiming = claiming_in(view, FakeClaims({node: [REFUSED]}), spec=spec)
    _, claimed = claim_best(claiming, "i1")
    assert claimed is candidates[1]
    assert pending.get("i1").demand.mappings == {"g": ("p1",)}
