"""Fuzzing: its parts, all kept inputs, and a short campaign."""

import itertools
import logging
from types import SimpleNamespace

import cachetools
from hypothesis import given, settings
from hypothesis.database import DirectoryBasedExampleDatabase, InMemoryExampleDatabase, ReadOnlyDatabase
import pytest

from tools.fuzzing import campaign, corpus, growth, oracle
from tools.fuzzing.campaign import Campaign, feed
from tools.fuzzing.inputs import MOST_DEPTH, SECRET, at, copied, depth, inputs, paths
from tools.fuzzing.oracle import Outcome
from tools.fuzzing.targets import TARGETS
from tools.fuzzing.world import Answer, World

pytestmark = pytest.mark.slow

SEED_VALUE = {"a": [1, {"b": "text"}], "c": {"nova_object.name": "Flavor", "nova_object.version": "1.2"}}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with World(tmp_path_factory.mktemp("fuzz")) as running:
        yield running


def drawn(count=300):
    found, before = [], copied(SEED_VALUE)

    @settings(max_examples=count, database=None, derandomize=True, deadline=None)
    @given(inputs([SEED_VALUE], ["word"]))
    def draw(value):
        found.append(value)

    draw()
    assert before == SEED_VALUE, "what is edited is a copy"
    return found


def test_edits_change_structure_types_and_versions():
    made = drawn()
    assert all(depth(value) < MOST_DEPTH for value in made)
    assert any("a" not in value for value in made)
    assert any(not isinstance(value.get("a"), list) for value in made)
    assert any(
        value["c"].get("nova_object.version") != "1.2" for value in made if isinstance(value.get("c"), dict)
    )


def test_paths_lead_to_every_part():
    assert {at(SEED_VALUE, path) for path in paths(SEED_VALUE) if path[-1] in {0, "b"}} == {1, "text"}


def test_abbreviations_are_spelled_out():
    short = {"text": {"$repeat": ["x", 4]}, "list": {"$repeat": [[7], 2]}, "deep": {"$nest": [1, 3]}}
    assert corpus.expanded(short) == {"text": "xxxx", "list": [7, 7], "deep": [[[1]]]}


class Keeper:
    __module__ = "scheduler.test"

    def __init__(self):
        self.unbounded = {}
        self.bounded = cachetools.LRUCache(100)


def test_growth_of_a_container_without_a_bound_is_reported():
    keeper = Keeper()
    before = growth.measure({"keeper": keeper})
    for number in range(1000):
        keeper.unbounded[number] = keeper.bounded[number] = str(number)
    (line,) = growth.compare(before, growth.measure({"keeper": keeper}))
    assert line == "keeper.unbounded grew from 0 to 1000 entries"


def test_a_bounded_cache_that_keeps_large_texts_is_reported():
    keeper = Keeper()
    before = growth.measure({"keeper": keeper})
    for number in range(30):
        keeper.bounded[number] = f"{number}" + "x" * 2**20
    (line,) = growth.compare(before, growth.measure({"keeper": keeper}))
    assert "keeper.bounded grew" in line
    assert "bytes" in line


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
    assert [problem.kind for problem in oracle.problems(outcome)] == [kind]


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Outcome(seconds=5.0), "over the budget of time"),
        (Outcome(memory_mib=500.0), "over the budget of memory"),
        (Outcome(hanging=10.0), "no end in time"),
    ],
)
def test_budgets_are_judged_apart(outcome, kind):
    assert [problem.kind for problem in oracle.over_budget(outcome)] == [kind]
    assert oracle.problems(outcome) == []


@pytest.mark.parametrize("name", ["NoValidHost", "InvalidField", "Invalid", "UnsupportedVersion", None])
def test_documented_errors_and_replies_are_no_problem(name):
    assert oracle.problems(Outcome(Answer(error=name, text="short"))) == []


def test_a_target_that_raises_is_a_problem(world):
    def fail(world, value):
        raise KeyError(value)

    outcome = feed(SimpleNamespace(run=fail), world, "x")
    assert [problem.kind for problem in oracle.problems(outcome)] == ["KeyError outside of any reply"]


@pytest.mark.parametrize(
    ("target", "name"), [(target, name) for target in TARGETS for name in corpus.load(target)]
)
def test_a_kept_input_is_answered_as_documented(world, target, name):
    outcome = feed(TARGETS[target], world, corpus.load(target)[name])
    # time and memory depend on what else the machine does; campaigns judge them
    assert oracle.problems(outcome) == []


@pytest.mark.parametrize("target", TARGETS)
def test_usual_input_reaches_a_reply(world, target):
    answers = [feed(TARGETS[target], world, value).answer for value in TARGETS[target].seeds().values()]
    assert any(answer.error is None for answer in answers)


def test_a_campaign_keeps_the_smallest_input_that_fails_and_tries_it_first(world):
    def run(world, value):
        fed.append(value)
        return Outcome(broken=["found X"] if "X" in str(value.get("text")) else [])

    fed, database = [], InMemoryExampleDatabase()
    target = SimpleNamespace(
        name="of-this-test", words=["X"], seeds=lambda: {"one": {"text": "", "x": [1]}}, run=run
    )
    report = Campaign(world, [target], 1, database).run(200)
    ((problem, value),) = report.findings.values()
    assert (problem.kind, value["text"]) == ("found X", "X")
    fed.clear()
    Campaign(world, [target], 2, database).run(1)
    assert fed[0] == value


def test_an_input_that_does_not_end_is_ended(world, monkeypatch):
    monkeypatch.setattr(campaign, "HANG_CPU", 0.05)
    outcome = feed(SimpleNamespace(run=lambda *_: [None for _ in itertools.repeat(0) if _]), world, "x")
    assert outcome.hanging


def test_a_short_campaign_finds_nothing(world):
    kept = ReadOnlyDatabase(DirectoryBasedExampleDatabase(corpus.DATABASE))
    report = Campaign(world, list(TARGETS.values()), 20, kept).run(150, minutes=0.2)
    assert [finding for finding in report.findings if not finding[1].startswith(("over the", "no end"))] == []
    assert report.grown == []
