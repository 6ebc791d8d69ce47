"""When the query of a failed request is looked into, and what is remembered."""

import logging

import pytest

from scheduler.background import BackgroundLoop
from scheduler.explain import empty_answers
from scheduler.explain.empty_answers import EmptyAnswers
from scheduler.explain.record import CandidateSource, DecisionRecord
from scheduler.explain.relaxation import Offer
from scheduler.placement.errors import PlacementSilent
from scheduler.request.scheduling_request import SchedulingRequest
from tests.support.clock import Clock
from tests.unit.filters.asking import make_spec

QUERY = "required=CUSTOM_GPU&resources=VCPU%3A1"


def record(query=QUERY, name="placement", offered=0, request_id="req-1"):
    found = DecisionRecord(SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"]), request_id, 0.0)
    found.queries, found.candidates = (query,), CandidateSource(name=name, offered=offered)
    return found


class World:
    def __init__(self):
        self.asked, self.clock, self.wanted, self.error = [], Clock(), True, None
        self.ask_during = lambda: None
        self.analysis = EmptyAnswers(self.ask, lambda: self.wanted, self.clock)

    def ask(self, querystring):
        self.asked.append(querystring)
        self.ask_during()
        if self.error:
            raise self.error
        return Offer(0 if "CUSTOM_GPU" in querystring else 12)

    def run(self, *records):
        for one in records:
            self.analysis.consider(one)
        for _ in records:
            self.analysis.run_round()


@pytest.fixture
def world():
    return World()


def test_the_record_and_the_log_say_what_would_have_helped(world, caplog):
    caplog.set_level(logging.INFO)
    failed = record()
    world.run(failed)
    assert [each.text for each in failed.relaxed] == ["without required trait CUSTOM_GPU: 12 hosts"]
    assert (
        "Placement offered no host for request req-1: without required trait CUSTOM_GPU: 12 hosts"
        in caplog.text
    )


def test_nothing_that_helps_is_said_too(world, caplog):
    caplog.set_level(logging.INFO)
    world.run(record("resources=VCPU%3A1"))
    assert "leaving out one or two constraints gives none either" in caplog.text


@pytest.mark.parametrize(
    "other",
    [{"offered": 3}, {"name": "mirror"}, {"name": ""}],
    ids=["hosts were offered", "from the mirror", "Placement was not asked"],
)
def test_other_failures_are_not_looked_into(world, other):
    world.run(record(**other))
    assert world.asked == []


def test_nothing_is_asked_while_placement_is_away(world):
    world.wanted = False
    world.run(record())
    assert world.asked == []


def test_a_placement_that_gives_no_answer_ends_the_attempt(world):
    world.error = PlacementSilent("away")
    failed = record()
    world.run(failed)
    assert (len(world.asked), failed.relaxed) == (1, ())


def test_equal_queries_are_asked_once_until_that_is_forgotten(world):
    first, second, late = record(), record(), record()
    world.run(first)
    asked = len(world.asked)
    world.run(second)
    assert (len(world.asked), second.relaxed) == (asked, first.relaxed)
    world.clock.now += empty_answers.REMEMBERED_FOR + 1
    world.run(late)
    assert len(world.asked) == 2 * asked


def test_only_some_queries_wait(world):
    more = empty_answers.MOST_WAITING + 5
    world.run(*(record(f"required=CUSTOM_GPU&resources=VCPU%3A{number}") for number in range(1, more + 1)))
    assert len(world.asked) == empty_answers.MOST_WAITING


def test_the_first_query_is_looked_into_at_once_and_others_later(world, monkeypatch):
    woken = []

    def wake(loop):
        woken.append(loop)

    monkeypatch.setattr(BackgroundLoop, "wake", wake)
    other = record("required=CUSTOM_GPU&resources=VCPU%3A2")
    world.analysis.consider(record())
    assert len(woken) == 1
    world.ask_during = lambda: world.analysis.consider(other)
    assert world.analysis.run_round() == empty_answers.INTERVAL
    world.analysis.run_round()
    assert len(woken) == 1
    world.clock.now += empty_answers.INTERVAL
    world.analysis.consider(record("required=CUSTOM_GPU&resources=VCPU%3A3"))
    assert len(woken) == 2
