"""Claiming the best host that is granted, host by host and several at once."""

import logging

import pytest

from scheduler.claims.result import ClaimResult, Outcome
from scheduler.errors import AllocationUpdateFailed, NoValidHost
from scheduler.filters.chain import FilterChain
from scheduler.placement.answer import Usage
from scheduler.rules import load_weighers
from scheduler.selection.headroom import Headroom
from scheduler.selection.host_claiming import HostClaiming
from scheduler.selection.ranking import Ranking
from scheduler.weights.scores import prepare_weighers
from tests.builders import make_view, uuid_of
from tests.unit.selection.requests import (
    REFUSED,
    FakeClaims,
    host_with_candidate,
    make_candidate,
    make_conf,
    make_request,
)

NEXT_HOST = "Claim for instance %s on host %s refused (no room); trying the next host"


def claiming_on(hosts, claims, **options):
    conf = make_conf(weight_classes=["nova.scheduler.weights.ram.RAMWeigher"])
    request = make_request()
    prepared = FilterChain(()).prepare(request), prepare_weighers(load_weighers.load(conf), request)
    ranking = Ranking(*prepared, make_view(hosts), request, conf.filter_scheduler)
    return ranking, HostClaiming(ranking, claims, {"num_instances": 1}, **options)


def two_hosts():
    """h1 is better than h2."""
    return [host_with_candidate("h1").ram(9000), host_with_candidate("h2").ram(8000)]


def name_of(ranking, chosen):
    return ranking.hosts.row(chosen[0]).host


def info_lines(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]


def test_a_refused_claim_is_logged_with_its_cause_and_the_next_host_is_claimed(caplog):
    caplog.set_level(logging.INFO)
    ranking, claiming = claiming_on(two_hosts(), FakeClaims({uuid_of("h1"): REFUSED}))
    assert name_of(ranking, claiming.claim_best("i1")) == "h2"
    assert info_lines(caplog) == [NEXT_HOST % ("i1", "h1")]
    assert [ranking.hosts.row(index).host for index in claiming.others()] == ["h1"]


def test_claims_refused_together_are_logged_and_their_hosts_come_last(caplog):
    caplog.set_level(logging.INFO)
    ranking, claiming = claiming_on(two_hosts(), FakeClaims({uuid_of("h1"): REFUSED}))
    for uuid in ("i1", "i2"):
        claiming.choose_best(uuid)
    assert claiming.claim_chosen() == ["i1", "i2"]
    assert info_lines(caplog) == [NEXT_HOST % (uuid, "h1") for uuid in ("i1", "i2")]
    assert [ranking.hosts.row(index).host for index in ranking.best_first()] == ["h2", "h1"]


def test_nothing_is_logged_for_a_claim_that_is_granted(caplog):
    caplog.set_level(logging.INFO)
    ranking, claiming = claiming_on(two_hosts(), FakeClaims())
    assert name_of(ranking, claiming.claim_best("i1")) == "h1"
    assert info_lines(caplog) == []


def test_a_host_that_is_mapped_to_no_cell_is_not_claimed(caplog):
    caplog.set_level(logging.DEBUG)
    claims = FakeClaims()
    ranking, claiming = claiming_on(two_hosts(), claims, is_mapped=lambda host: host != "h1")
    assert name_of(ranking, claiming.claim_best("i1")) == "h2"
    assert claims.tried == [("i1", uuid_of("h2"))]
    assert "Host h1 is mapped to no cell; trying the next host" in caplog.text


@pytest.mark.parametrize("claim", ["claim_best", "choose_best"])
@pytest.mark.parametrize(
    ("outcome", "error"),
    [(Outcome.CONFLICT, AllocationUpdateFailed), (Outcome.UNAVAILABLE, NoValidHost)],
    ids=["another writer", "Placement away"],
)
def test_a_refusal_that_holds_for_all_hosts_ends_the_request(claim, outcome, error):
    claims = FakeClaims({uuid_of("h1"): ClaimResult(outcome, "cause")})
    _, claiming = claiming_on(two_hosts(), claims)
    with pytest.raises(error):
        getattr(claiming, claim)("i1"), claiming.claim_chosen()
    assert len(claims.tried) == 1


def test_a_planned_claim_leaves_less_headroom_to_the_next_instance():
    usages = {uuid_of("h1"): {"VCPU": Usage(4, 1)}}.get
    ranking, claiming = claiming_on(two_hosts(), FakeClaims(), headroom=Headroom(usages))
    assert [name_of(ranking, claiming.choose_best(uuid)) for uuid in ("i1", "i2")] == ["h1", "h2"]


@pytest.mark.parametrize(
    ("refused_class", "tried"),
    [("", 1), ("DISK_GB", 2), ("VCPU", 1)],
    ids=["no class", "class that differs", "class that is alike"],
)
def test_another_candidate_of_a_host_is_tried_only_if_the_refusal_may_not_hold_for_it(refused_class, tried):
    host = host_with_candidate("h1")
    host.candidate(make_candidate(uuid_of("h1"), VCPU=2, DISK_GB=1))
    claims = FakeClaims({uuid_of("h1"): ClaimResult(Outcome.REFUSED, "no room", refused_class)})
    _, claiming = claiming_on([host], claims)
    with pytest.raises(NoValidHost):
        claiming.claim_best("i1")
    assert len(claims.tried) == tried


def test_without_claims_the_best_host_is_chosen_without_a_candidate():
    ranking, claiming = claiming_on(two_hosts(), None)
    chosen = claiming.claim_best("i1")
    assert (name_of(ranking, chosen), chosen[1]) == ("h1", None)
    assert claiming.claim_chosen() == []
