"""Hostile input, drawn by hypothesis and kept, is answered as documented, and no secret is in any text or log line."""

import logging

from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st
import pytest

from tests.support import campaigns
from tests.unit.fuzzing import corpus, oracle
from tests.unit.fuzzing.mutations import SECRET, VERSIONS, at, mutated, paths
from tests.unit.fuzzing.oracle import Outcome
from tests.unit.fuzzing.targets import TARGETS
from tests.unit.fuzzing.worker import Answer, Worker

pytestmark = pytest.mark.slow

SEED_VALUE = {"a": [1, {"b": "text"}], "c": {"nova_object.name": "Flavor", "nova_object.version": "1.2"}}


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    with Worker(tmp_path_factory.mktemp("fuzz")) as running:
        yield running


@pytest.mark.parametrize(
    "wanted",
    [
        lambda value: "a" not in value,
        lambda value: not isinstance(value.get("a", []), list),
        lambda value: value["c"]["nova_object.version"] in VERSIONS,
        lambda value: "word" in value,
        lambda value: "text" not in str(value) and isinstance(value["a"][1]["b"], str),
    ],
    ids=["deleted", "replaced", "a version", "a key", "another text"],
)
def test_edits_change_structure_types_and_versions(wanted):
    def holds(value):
        try:
            return wanted(value)
        except (LookupError, TypeError, AttributeError):
            return False

    found = find(mutated([SEED_VALUE], ["word"]), holds, settings=settings(max_examples=5000, database=None))
    assert found != SEED_VALUE


def test_paths_lead_to_every_part():
    assert {at(SEED_VALUE, path) for path in paths(SEED_VALUE) if path[-1] in {0, "b"}} == {1, "text"}


def test_abbreviations_are_spelled_out():
    short = {"text": {"$repeat": ["x", 4]}, "list": {"$repeat": [[7], 2]}, "deep": {"$nest": [1, 3]}}
    assert corpus.expanded(short) == {"text": "xxxx", "list": [7, 7], "deep": [[[1]]]}


def record(message):
    return logging.LogRecord("scheduler.x", logging.INFO, "x.py", 7, message, None, None)


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Outcome(Answer(error="KeyError", text="x")), "undocumented KeyError at ?"),
        (Outcome(Answer(error="InvalidRequest", text="a\nb")), "line break in the text of InvalidRequest"),
        (Outcome(Answer(error="InvalidRequest", text=SECRET)), "secret in the text of InvalidRequest"),
        (
            Outcome(Answer(error="NoValidHost", text="x" * 5000)),
            "more than 1000 characters in the text of NoValidHost",
        ),
        (Outcome(records=[record(f"token {SECRET}")]), "secret in a log line of scheduler.x:7"),
        (Outcome(records=[record("a\nb")]), "line break in a log line of scheduler.x:7"),
        (Outcome(broken=["rows disappeared"]), "rows disappeared"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_oracle_names_the_problem(outcome, kind):
    assert [problem[: len(kind)] for problem in oracle.problems(outcome)] == [kind]


@pytest.mark.parametrize("name", ["NoValidHost", "InvalidField", "Invalid", "UnsupportedVersion", None])
def test_documented_errors_and_replies_are_no_problem(name):
    assert oracle.problems(Outcome(Answer(error=name, text="short"))) == []


def feed(target, worker, value):
    """Feed one input, and return what is wrong."""
    worker.log.take()
    outcome = TARGETS[target].run(worker, value)
    outcome.records = worker.log.take()
    return oracle.problems(outcome), outcome.answer


@pytest.mark.parametrize(
    ("target", "name"), [(target, name) for target in TARGETS for name in corpus.load(target)]
)
def test_a_kept_input_is_answered_as_documented(worker, target, name):
    assert feed(target, worker, corpus.load(target)[name])[0] == []


@pytest.mark.parametrize("target", TARGETS)
def test_usual_input_reaches_a_reply(worker, target):
    answers = [feed(target, worker, value)[1] for value in TARGETS[target].seeds.values()]
    assert any(answer.error is None for answer in answers)
    if target == "messages":  # else nothing behind the question to Placement would be tried
        assert not any(answer.error == "PlacementAPIConnectFailure" for answer in answers)


@pytest.mark.parametrize("target", TARGETS)
@settings(campaigns.examples(25), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_changed_input_is_answered_as_documented(worker, target, data):
    seeds = [*TARGETS[target].seeds.values(), *corpus.load(target).values()]
    assert feed(target, worker, data.draw(mutated(seeds, TARGETS[target].words)))[0] == []
