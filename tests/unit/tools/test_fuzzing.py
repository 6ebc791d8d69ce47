"""Fuzzing: its parts, all kept inputs, and a short campaign."""

import json
import logging
import math
import random
from types import SimpleNamespace

import cachetools
import pytest

from tools.fuzzing import corpus, growth, oracle
from tools.fuzzing.campaign import Campaign, feed, shrink
from tools.fuzzing.mutation import (
    MOST_DEPTH,
    MOST_REPEATED,
    SECRET,
    Mutator,
    all_paths,
    at,
    copied,
    depth,
    size,
)
from tools.fuzzing.oracle import Outcome
from tools.fuzzing.targets import TARGETS
from tools.fuzzing.world import Answer, World

pytestmark = pytest.mark.slow

SEED_VALUE = {"a": [1, {"b": "text"}], "c": {"nova_object.name": "Flavor", "nova_object.version": "1.2"}}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with World(tmp_path_factory.mktemp("fuzz")) as running:
        yield running


def mutations(seed, count=200):
    mutator = Mutator(random.Random(seed), [SEED_VALUE], ["word"])
    return [repr(mutator.mutate(SEED_VALUE)) for _ in range(count)]


def test_a_seed_gives_the_same_mutations_and_another_seed_others():
    assert mutations(1) == mutations(1)
    assert mutations(1) != mutations(2)


def test_a_mutation_leaves_its_seed_as_it_is():
    before = copied(SEED_VALUE)
    mutations(3)
    assert before == SEED_VALUE


def test_mutations_change_structure_types_and_versions():
    made = [Mutator(random.Random(seed), [SEED_VALUE]).mutate(SEED_VALUE) for seed in range(300)]
    assert all(depth(value) < MOST_DEPTH for value in made)
    assert any("a" not in value for value in made)
    assert any(not isinstance(value.get("a"), list) for value in made)
    assert any(
        value["c"].get("nova_object.version") != "1.2" for value in made if isinstance(value.get("c"), dict)
    )


def test_large_lists_are_not_repeated_without_a_bound():
    large = {"a": ["x" * (1 << 20)] * 20}
    assert size(large) > MOST_REPEATED
    assert max(size(Mutator(random.Random(seed), [{}]).mutate(large)) for seed in range(40)) < 3 * size(large)


def test_paths_lead_to_every_part():
    assert {at(SEED_VALUE, path) for path in all_paths(SEED_VALUE) if path[-1] in {0, "b"}} == {1, "text"}


def test_long_repetitions_are_abbreviated_and_spelled_out_again():
    value = {"text": "x" * 4000, "list": [7] * 2000, "short": "xxx", "surrogate": "\ud800"}
    short = corpus.abbreviated(value)
    assert len(json.dumps(short)) < 200
    assert corpus.expanded(json.loads(json.dumps(short))) == value
    assert corpus.expanded({"$nest": [1, 3]}) == [[[1]]]


def test_an_input_that_is_kept_is_loaded_again(tmp_path):
    path = corpus.save("messages", {"a": math.inf, "b": "\udfff"}, tmp_path)
    assert corpus.load("messages", tmp_path) == {path.stem: {"a": math.inf, "b": "\udfff"}}


def test_shrinking_keeps_what_makes_an_input_fail():
    value = {"x": list(range(50)), "y": {"bad": "aaaaXaaaa"}, "z": 1}
    assert shrink(value, lambda each: "X" in str(each.get("y", {}).get("bad"))) == {"y": {"bad": "X"}}


def test_shrinking_ends_in_time():
    value, tried = list(range(50)), []
    clock = iter(range(0, 10_000, 50)).__next__
    assert len(shrink(value, lambda each: tried.append(each) or 7 in each, clock)) > 1
    assert len(tried) == 2


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
        (Outcome(seconds=5.0), "over the budget of time"),
        (Outcome(memory_mib=500.0), "over the budget of memory"),
        (Outcome(broken=["rows disappeared"]), "rows disappeared"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_oracle_names_the_problem(outcome, kind):
    assert [problem.kind for problem in oracle.problems(outcome)] == [kind]


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
    outcome.seconds = outcome.memory_mib = 0.0
    assert oracle.problems(outcome) == []


@pytest.mark.parametrize("target", TARGETS)
def test_usual_input_reaches_a_reply(world, target):
    answers = [feed(TARGETS[target], world, value).answer for value in TARGETS[target].seeds().values()]
    assert any(answer.error is None for answer in answers)


def test_a_short_campaign_finds_nothing(world, tmp_path):
    report = Campaign(world, list(TARGETS.values()), seed=20, directory=tmp_path).run(150, minutes=0.2)
    found = [
        finding for finding in report.findings.values() if not finding.problem.kind.startswith("over the")
    ]
    assert found == []
    assert report.grown == []
