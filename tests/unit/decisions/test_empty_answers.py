"""When the query of a failed request is looked into, and what is remembered."""

import logging

import pytest

from scheduler.bounds.background import BackgroundLoop
from scheduler.decisions import document, empty_answers
from scheduler.decisions.constraint_names import RequestNames
from scheduler.decisions.document import time_text
from scheduler.decisions.empty_answers import EmptyAnswers
from scheduler.decisions.providers import OfferedHosts
from scheduler.decisions.trace import Trace
from scheduler.errors import PlacementUnavailable
from scheduler.placement.candidates import Candidates
from scheduler.placement.errors import PlacementSilent
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rpc.context import RequestContext
from tests.support.clock import Clock
from tests.unit.filters.asking import make_spec

QUERY = "required=CUSTOM_GPU&resources=VCPU%3A1"


def failed_request(query=QUERY, source="placement", hosts=0, request_id="req-1", **found):
    context = RequestContext(request_id=request_id)
    trace = Trace(SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"], context))
    trace.decision.queries = [query]
    trace.decision.candidates = document.Candidates(source=source, hosts=hosts, **found)
    return trace


def found_for(trace):
    return [each.text for each in trace.decision.candidates.relaxed]


class World:
    def __init__(self):
        self.concluded = []
        self.asked, self.clock, self.wanted, self.error = [], Clock(), True, None
        self.refused = ["CUSTOM_GPU"]
        self.ask_during = lambda: None
        self.analysis = EmptyAnswers(
            self,
            lambda: self.wanted,
            lambda spec: RequestNames(spec, ()),
            self.concluded.append,
            self.clock,
            lambda: self.clock.now,
        )

    def offer(self, querystring):
        self.asked.append(querystring)
        self.ask_during()
        if self.error:
            raise self.error
        nodes = frozenset(map(str, range(12)))
        return OfferedHosts() if any(word in querystring for word in self.refused) else OfferedHosts(nodes)

    def run(self, *traces):
        for one in traces:
            self.analysis.consider(one)
        for _ in traces:
            self.analysis.run_round()


@pytest.fixture
def world():
    return World()


def test_the_record_and_the_log_say_what_would_have_helped(world, caplog):
    caplog.set_level(logging.INFO)
    failed = failed_request()
    world.run(failed)
    assert found_for(failed) == ["without required trait CUSTOM_GPU: 12 hosts"]
    assert (
        "Placement offered no host for request req-1: without required trait CUSTOM_GPU: 12 hosts"
        in caplog.text
    )


def test_the_line_has_the_context_of_the_request(world, caplog):
    caplog.set_level(logging.INFO)
    world.run(failed_request(request_id="req-7"))
    (line,) = [each for each in caplog.records if each.name == f"nova.{empty_answers.__name__}"]
    assert line.context.request_id == "req-7"


def test_nothing_that_helps_is_said_too(world, caplog):
    caplog.set_level(logging.INFO)
    world.refused.append("VCPU")
    failed = failed_request("resources=VCPU%3A1")
    world.run(failed)
    assert "leaving out one or two constraints gives no host either" in caplog.text
    assert (found_for(failed), failed.decision.candidates.relaxed_at) == ([], time_text(world.clock.now))


def test_a_cloud_that_has_changed_since_is_said_and_not_remembered(world, caplog):
    caplog.set_level(logging.INFO)
    world.refused = []
    first, second = failed_request(), failed_request()
    world.run(first)
    assert "req-1: the same query, sent again, has 12 hosts: the cloud has changed since" in caplog.text
    world.refused = ["CUSTOM_GPU"]
    world.clock.now += 20
    world.run(second)
    assert found_for(second) == ["without required trait CUSTOM_GPU: 12 hosts"]
    assert second.decision.candidates.relaxed_at == time_text(world.clock.now)


@pytest.mark.parametrize(
    "other",
    [{"hosts": 3}, {"source": "mirror"}, {"source": ""}],
    ids=["hosts were offered", "from the mirror", "Placement was not asked"],
)
def test_other_failures_are_not_looked_into(world, other):
    world.run(failed_request(**other))
    assert world.asked == []


@pytest.mark.parametrize("requests", [1, 2], ids=["alone", "shared with another request"])
def test_an_outage_is_not_taken_for_an_empty_answer(world, requests):
    """Once Placement is back each constraint would seem to decide: without it there are hosts again."""
    trace = Trace(failed_request().request)
    trace.asked([Query((), QUERY, None)])
    trace.answered(Candidates(reason="Placement answers 500", failed=True, requests=requests))
    world.refused = []
    trace.finish(PlacementUnavailable("Placement answers 500"))
    world.run(trace)
    assert world.asked == []


def test_nothing_is_asked_while_placement_is_away(world):
    world.wanted = False
    world.run(failed_request())
    assert world.asked == []


def test_a_placement_that_gives_no_answer_ends_the_attempt(world):
    world.error = PlacementSilent("away")
    failed = failed_request()
    world.run(failed)
    assert (len(world.asked), found_for(failed), world.concluded) == (1, [], [failed.decision])


def test_equal_queries_are_asked_once_until_that_is_forgotten(world):
    first, second, late = failed_request(), failed_request(), failed_request()
    world.run(first)
    asked = len(world.asked)
    world.run(second)
    assert (len(world.asked), found_for(second)) == (asked, found_for(first))
    assert world.concluded == [first.decision, second.decision]
    world.clock.now += empty_answers.REMEMBERED_FOR + 1
    world.run(late)
    assert len(world.asked) == 2 * asked


def test_only_some_queries_wait(world):
    more = empty_answers.MOST_WAITING + 5
    world.run(
        *(failed_request(f"required=CUSTOM_GPU&resources=VCPU%3A{number}") for number in range(1, more + 1))
    )
    as_it_was = [query for query in world.asked if "CUSTOM_GPU" in query]
    assert len(as_it_was) == empty_answers.MOST_WAITING


def test_the_first_query_is_looked_into_at_once_and_others_later(world, monkeypatch):
    woken = []

    def wake(loop):
        woken.append(loop)

    monkeypatch.setattr(BackgroundLoop, "wake", wake)
    other = failed_request("required=CUSTOM_GPU&resources=VCPU%3A2")
    world.analysis.consider(failed_request())
    assert len(woken) == 1
    world.ask_during = lambda: world.analysis.consider(other)
    assert world.analysis.run_round() == empty_answers.INTERVAL
    world.analysis.run_round()
    assert len(woken) == 1
    world.clock.now += empty_answers.INTERVAL
    world.analysis.consider(failed_request("required=CUSTOM_GPU&resources=VCPU%3A3"))
    assert len(woken) == 2


@pytest.mark.parametrize(
    "failed",
    [failed_request(hosts=3), failed_request(source="mirror"), failed_request(failed=True)],
    ids=["hosts were offered", "from the mirror", "no answer"],
)
def test_a_failure_of_another_kind_is_concluded_at_once(world, failed):
    world.analysis.consider(failed)
    assert world.concluded == [failed.decision]


def test_an_empty_answer_is_concluded_once_it_was_looked_into(world):
    failed = failed_request()
    world.analysis.consider(failed)
    assert world.concluded == []
    world.analysis.run_round()
    world.analysis.run_round()
    assert world.concluded == [failed.decision]


def test_equal_queries_that_wait_are_concluded_together(world):
    first, other, equal = failed_request(), failed_request("resources=VCPU%3A9"), failed_request()
    for each in (first, other, equal):
        world.analysis.consider(each)
    world.analysis.run_round()
    assert world.concluded == [first.decision, equal.decision]
    assert found_for(equal) == found_for(first)


def test_what_cannot_wait_is_concluded_without_a_finding(world):
    queries = [f"required=CUSTOM_GPU&resources=VCPU%3A{n}" for n in range(empty_answers.MOST_WAITING)]
    for query in queries:
        world.analysis.consider(failed_request(query))
    late = failed_request()
    world.analysis.consider(late)
    assert world.concluded == [late.decision]


def test_what_waits_at_the_end_is_concluded_without_a_finding(world):
    failed = failed_request()
    world.analysis.consider(failed)
    world.analysis.stop()
    assert (world.concluded, world.asked) == ([failed.decision], [])


def test_what_cannot_be_looked_into_for_an_error_is_concluded(world):
    world.error = RuntimeError("a defect")
    failed = failed_request()
    world.analysis.consider(failed)
    with pytest.raises(RuntimeError):
        world.analysis.run_round()
    assert world.concluded == [failed.decision]
