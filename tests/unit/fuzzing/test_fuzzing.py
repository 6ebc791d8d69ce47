"""Hostile input, drawn by hypothesis and kept, is answered as documented, and no secret is in any text or log line."""

import logging

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from scheduler.logs import OneLineRecord
from tests.support import campaigns
from tests.unit.fuzzing import corpus, oracle
from tests.unit.fuzzing.mutations import mutated
from tests.unit.fuzzing.targets import TARGETS
from tests.unit.fuzzing.worker import Worker

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    with Worker(tmp_path_factory.mktemp("fuzz")) as running:
        yield running


@pytest.fixture
def log(caplog):
    """All records of this project from INFO on, as they are written; of endpoints tracebacks too."""
    factory = logging.getLogRecordFactory()
    logging.setLogRecordFactory(OneLineRecord)
    caplog.set_level(logging.INFO, "nova.scheduler")
    caplog.set_level(logging.DEBUG, "nova.scheduler.rpc.methods")
    yield caplog
    logging.setLogRecordFactory(factory)


@pytest.fixture
def feed(worker, log):
    """A function that feeds one input, and returns what is wrong and the answer."""

    def feed(target, value):
        log.clear()
        outcome = TARGETS[target].run(worker, value)
        outcome.records = list(log.records)
        return oracle.problems(outcome), outcome.answer

    return feed


@pytest.mark.parametrize(
    ("target", "name"), [(target, name) for target in TARGETS for name in corpus.load(target)]
)
def test_a_kept_input_is_answered_as_documented(feed, target, name):
    assert feed(target, corpus.load(target)[name])[0] == []


@pytest.mark.parametrize("target", TARGETS)
def test_usual_input_reaches_a_reply(feed, target):
    answers = [feed(target, value)[1] for value in TARGETS[target].seeds.values()]
    assert any(answer.error is None for answer in answers)
    if target == "messages":  # else nothing behind the question to Placement would be tried
        assert not any(answer.error == "PlacementAPIConnectFailure" for answer in answers)


@pytest.mark.parametrize("target", TARGETS)
@settings(campaigns.examples(25), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_changed_input_is_answered_as_documented(feed, target, data):
    seeds = [*TARGETS[target].seeds.values(), *corpus.load(target).values()]
    assert feed(target, data.draw(mutated(seeds, TARGETS[target].words)))[0] == []
