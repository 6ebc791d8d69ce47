from concurrent.futures import ThreadPoolExecutor
import uuid

import pytest

from scheduler.placement.allocations import NOTHING, Owner
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.outcomes import Outcome
from scheduler.placement.session import Timeouts
from scheduler.placement.writes import Write
from tests.integration.placement_fixtures import OWNER, make_claimer, put, request_for
from tools.rig.faulty_proxy import (
    after_doing,
    delayed,
    drop_after,
    drop_before,
    error,
    html,
    late,
)

PUT = ("PUT", "/allocations")


@pytest.fixture
def claim(claimer, instance):
    def claim(candidate, **kwargs):
        return claimer.claim(request_for(instance, candidate, **kwargs))

    return claim


def test_fresh_consumer_costs_one_request(claim, candidates, cloud, instance, proxy):
    before = len(proxy.seen)
    result = claim(candidates[0])
    assert result.outcome is Outcome.DONE
    assert len(proxy.seen) == before + 1
    held = cloud.held(instance)
    assert held.allocations == candidates[0].allocations
    assert (held.generation, held.owner) == (1, OWNER)


def test_full_host_refuses_and_says_of_what(claim, candidates, cloud, claimer, instance):
    for _ in range(2):
        assert claimer.claim(request_for(str(uuid.uuid4()), candidates[0])).done
    result = claim(candidates[0])
    assert result.outcome is Outcome.REFUSED
    assert result.try_next
    assert result.provider == candidates[0].root
    assert result.resource_class in {"VCPU", "MEMORY_MB"}
    assert cloud.held(instance) == NOTHING
    assert claim(candidates[1]).done


@pytest.mark.parametrize(("project", "uuid"), [(None, None), ("project", "no-uuid")])
def test_malformed_claim_is_not_worth_another_host(claimer, candidates, instance, project, uuid):
    result = claimer.claim(request_for(uuid or instance, candidates[0], Owner(project, "user")))
    assert result.outcome is Outcome.INVALID
    assert not result.try_next


def test_missing_provider_then_another_host(claim, candidates, cloud, instance):
    cloud.delete(candidates[0].root)
    gone = claim(candidates[0])
    assert gone.outcome is Outcome.GONE
    assert gone.provider == candidates[0].root
    assert claim(candidates[1]).done  # Placement kept a record of the consumer
    assert cloud.held(instance).allocations == candidates[1].allocations


def test_provider_deleted_on_the_way(claim, candidates, cloud, proxy):
    proxy.on(*PUT, after_doing(lambda: cloud.delete(candidates[0].root)))
    assert claim(candidates[0]).outcome is Outcome.GONE


def test_empty_consumer_of_another_process(claim, candidates, cloud, instance):
    gone = AllocationCandidate.of("x", ("x",), {str(uuid.uuid4()): {"resources": {"VCPU": 1}}}, {})
    assert put(cloud.writer, instance, Write.of(gone, OWNER)).outcome is Outcome.GONE
    assert claim(candidates[0]).done
    assert cloud.held(instance).generation == 1


LOST = {
    "answer lost": drop_after,
    "request lost": drop_before,
    "500 after commit": error(500, "deadlock", after=True),
    "500 without effect": error(500, "database is locked"),
    "503 of a load balancer after commit": html(503, after=True),
    "503 of a load balancer": html(503),
    "504 of a load balancer after commit": html(504, after=True),
    "success that is none": html(200),
    "request late": late(0.02),
}


@pytest.mark.parametrize("fault", LOST.values(), ids=LOST.keys())
def test_lost_answer_ends_in_one_host(claim, candidates, cloud, instance, proxy, fault):
    proxy.on(*PUT, fault)
    assert claim(candidates[0]).outcome is Outcome.DONE
    assert cloud.held(instance).allocations == candidates[0].allocations
    assert cloud.used(candidates[0].root) == {"VCPU": 2, "MEMORY_MB": 1024}


def test_slow_answer_times_out_and_is_found(cloud, candidates, connect, proxy, instance):
    claimer = make_claimer(connect(proxy.url, Timeouts(connect=1.0, read=0.3, search=5.0)))
    proxy.on(*PUT, delayed(0.8))
    result = claimer.claim(request_for(instance, candidates[0]))
    assert result.done
    assert proxy.count(*PUT) == 1
    assert cloud.held(instance).allocations == candidates[0].allocations


class TestEvacuation:
    @pytest.fixture
    def evacuate(self, claim, candidates):
        assert claim(candidates[0]).done
        return lambda: claim(candidates[1], evacuating_from={candidates[0].root})

    def both(self, candidates):
        return {**candidates[0].allocations, **candidates[1].allocations}

    def test_keeps_the_source(self, evacuate, candidates, cloud, instance):
        result = evacuate()
        assert result.done
        assert cloud.held(instance).allocations == self.both(candidates)
        assert cloud.held(instance).generation == 2

    @pytest.mark.parametrize("fault", LOST.values(), ids=LOST.keys())
    def test_answer_to_the_second_put_is_lost(self, evacuate, candidates, cloud, instance, proxy, fault):
        proxy.on(*PUT, lambda forward: forward(), fault)
        assert evacuate().done
        assert cloud.held(instance).allocations == self.both(candidates)

    def test_release_restores_the_source(self, evacuate, claimer, candidates, cloud, instance):
        claimer.release_result(instance, evacuate())
        held = cloud.held(instance)
        assert held.allocations == candidates[0].allocations
        assert held.owner == OWNER

    def test_release_with_placement_away_restores_later(
        self, evacuate, claimer, candidates, cloud, instance, proxy
    ):
        result = evacuate()
        proxy.on(*PUT, html(503))
        proxy.on("GET", "/allocations", drop_before, drop_before, html(503))
        claimer.release_result(instance, result)
        assert claimer.is_settled()
        assert cloud.held(instance).allocations == candidates[0].allocations

    def test_source_in_a_child_provider(self, claim, cloud, instance, candidates):
        root, other = (candidate.root for candidate in candidates)
        (child,) = cloud.make(1, parent=root)
        entry = {"resources": {"VCPU": 1}}
        source = AllocationCandidate.of(root, (root,), {child: entry}, {})
        assert put(cloud.writer, instance, Write.of(source, OWNER)).outcome is Outcome.DONE
        assert claim(candidates[1], evacuating_from={root}).done
        assert cloud.held(instance).allocations.keys() == {child, other}


class TestRelease:
    @pytest.mark.parametrize(
        "fault", [drop_before, drop_after, html(503), error(500, "deadlock", after=True)]
    )
    def test_failure_is_made_good_in_the_background(
        self, claim, claimer, candidates, cloud, instance, proxy, fault
    ):
        result = claim(candidates[0])
        proxy.on(*PUT, fault)
        claimer.release_result(instance, result)
        assert claimer.is_settled()
        assert cloud.held(instance) == NOTHING


def test_one_host_and_many_claimers(claimer, cloud, candidates):
    instances = [str(uuid.uuid4()) for _ in range(12)]
    with ThreadPoolExecutor(12) as pool:
        results = list(pool.map(lambda one: claimer.claim(request_for(one, candidates[0])), instances))
    assert sum(result.done for result in results) == 2
    assert {result.outcome for result in results} == {Outcome.DONE, Outcome.REFUSED}
    assert cloud.used(candidates[0].root)["VCPU"] == 4


def test_one_instance_claimed_from_many_threads(claimer, cloud, candidates, instance):
    with ThreadPoolExecutor(6) as pool:
        results = list(
            pool.map(lambda number: claimer.claim(request_for(instance, candidates[number % 2])), range(6))
        )
    assert {result.outcome for result in results} == {Outcome.DONE, Outcome.CHANGED}
    held = cloud.held(instance).allocations
    assert held in [candidate.allocations for candidate in candidates]
    assert sum(cloud.used(candidate.root)["VCPU"] for candidate in candidates) == 2
