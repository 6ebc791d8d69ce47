"""What several instances hold is fenced by a real Placement for all or for none."""

import uuid

import pytest

from scheduler.claims.claims import Pass
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Write
from tests.integration.placement_fixtures import OWNER, put, request_for
from tools.rig.faulty_proxy import concurrent_update, drop_after, drop_before, error

POST = ("POST", "/allocations")


@pytest.fixture
def requests_(claimer, candidates):
    """Requests for instances that hold what they ask for."""
    first, second = candidates
    requests = [request_for(str(uuid.uuid4()), one) for one in (first, first, second)]
    assert all(result.done for result in claimer.claim(requests).values())
    return requests


def confirm(claimer, requests, then=lambda: None):
    held = claimer.read([request.uuid for request in requests])
    then()
    return claimer.fence(held, Pass(OWNER))


def generations(cloud, requests):
    return [cloud.held(request.uuid).generation for request in requests]


@pytest.mark.parametrize(
    ("fault", "generation"),
    [(None, 2), (concurrent_update, 2), (drop_before, 2), (drop_after, 2), (error(500), 2)],
    ids=["no fault", "concurrent update", "request lost", "response lost", "500"],
)
def test_all_are_confirmed(claimer, requests_, cloud, proxy, fault, generation):
    results = confirm(claimer, requests_, then=lambda: fault and proxy.on(*POST, fault))
    assert {result.outcome for result in results.values()} == {Outcome.DONE}
    assert generations(cloud, requests_) == [generation] * 3
    assert [cloud.held(one.uuid).allocations for one in requests_] == [
        one.candidate.allocations for one in requests_
    ]


def test_none_is_confirmed_after_one_was_given_back(claimer, requests_, cloud):
    uuid_ = requests_[1].uuid
    results = confirm(
        claimer,
        requests_,
        then=lambda: put(cloud.writer, uuid_, Write({}, OWNER, 1)),
    )
    assert {result.outcome for result in results.values()} == {Outcome.CHANGED}
    assert generations(cloud, requests_) == [1, None, 1]


def test_what_is_confirmed_fits_on_a_host_that_is_full(claimer, requests_, cloud):
    assert cloud.used(requests_[0].candidate.root)["VCPU"] == 4
    results = confirm(claimer, requests_)
    assert all(result.done for result in results.values())
    assert cloud.used(requests_[0].candidate.root)["VCPU"] == 4
