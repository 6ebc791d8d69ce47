from collections import Counter
import itertools
from types import MappingProxyType

import pytest
import sqlalchemy as sa

from tools.rig import truth
from tools.rig.providers import Provider

URL = "http://placement"
AMOUNTS = {"VCPU": 2, "MEMORY_MB": 512}
INVENTORIES = {
    "VCPU": {"total": 2, "reserved": 1, "allocation_ratio": 4.0},
    "MEMORY_MB": {"total": 1024, "reserved": 0, "allocation_ratio": 1.0},
}


@pytest.fixture
def look(requests_mock):
    """A function from {provider: {consumer: amounts}} and what is expected to the problems found."""

    def check(held, expected, hidden=MappingProxyType({})):
        providers = [Provider(name, name) for name in ("a", "b")]
        for provider in providers:
            allocations = {who: {"resources": what} for who, what in held.get(provider.uuid, {}).items()}
            base = f"{URL}/resource_providers/{provider.uuid}"
            used = Counter()
            for each in allocations.values():
                used.update(each["resources"])
            generation = {"resource_provider_generation": 1}
            for name, value in (
                ("inventories", INVENTORIES),
                ("allocations", allocations),
                ("usages", used | hidden.get(provider.uuid, {})),
            ):
                requests_mock.get(f"{base}/{name}", json={name: value, **generation})
        return truth.check(URL, providers, expected)

    return check


def test_all_is_well(look):
    found = look({"a": {"i": AMOUNTS, "j": AMOUNTS}}, {"i": ("a", AMOUNTS), "j": ("a", AMOUNTS)})
    assert (found.problems, found.consumers, found.resources) == ([], 2, 4)


@pytest.mark.parametrize(
    ("held", "expected", "problem"),
    [
        ({}, {"i": ("a", AMOUNTS)}, "i should hold"),
        ({"b": {"i": AMOUNTS}}, {"i": ("a", AMOUNTS)}, "i should hold"),
        ({"a": {"i": {"VCPU": 1}}}, {"i": ("a", AMOUNTS)}, "i should hold"),
        ({"a": {"i": AMOUNTS}, "b": {"i": AMOUNTS}}, {"i": ("a", AMOUNTS)}, "i should hold"),
        ({"b": {"x": AMOUNTS}}, {}, "Left over: x"),
        (
            {"a": {"i": {"VCPU": 5}}},
            {"i": ("a", {"VCPU": 5})},
            "More is used than provider a has: VCPU 5 of 4",
        ),
    ],
)
def test_what_is_wrong_is_found(look, held, expected, problem):
    (line,) = look(held, expected).problems
    assert problem in line


def test_what_is_used_by_no_consumer_is_found(look):
    (line,) = look({}, {}, {"b": {"VCPU": 1}}).problems
    assert line == "Placement counts as used on provider b, for no consumer: VCPU 1."


@pytest.mark.parametrize(
    ("results", "left"), [([["a"], ["b"], []], []), ([["a"]] * 9, ["a"])], ids=["in the end", "never"]
)
def test_what_is_released_late_is_no_problem(results, left, monkeypatch):
    passed = itertools.count()
    monkeypatch.setattr(truth.time, "monotonic", passed.__next__)
    monkeypatch.setattr(truth.time, "sleep", lambda _: None)
    looks = iter(results)
    assert truth.settled(lambda: truth.Truth(problems=next(looks)), 5).problems == left


def make_database(rows):
    """A database with the tables of Placement that are read, and these allocations: provider, consumer, VCPU."""
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    with engine.begin() as connection:
        for statement in (
            "CREATE TABLE resource_providers (id INTEGER, uuid TEXT, name TEXT)",
            "CREATE TABLE resource_classes (id INTEGER, name TEXT)",
            (
                "CREATE TABLE inventories (resource_provider_id INTEGER, resource_class_id INTEGER,"
                " total INTEGER, reserved INTEGER, allocation_ratio FLOAT)"
            ),
            (
                "CREATE TABLE allocations (id INTEGER PRIMARY KEY, resource_provider_id INTEGER,"
                " resource_class_id INTEGER, consumer_id TEXT, used INTEGER)"
            ),
            "INSERT INTO resource_providers VALUES (1, 'a', 'a'), (2, 'b', 'b')",
            "INSERT INTO resource_classes VALUES (1, 'VCPU')",
            "INSERT INTO inventories VALUES (1, 1, 2, 1, 4.0), (2, 1, 2, 1, 4.0)",
        ):
            connection.execute(sa.text(statement))
        for provider, consumer, used in rows:
            connection.execute(
                sa.text(
                    "INSERT INTO allocations (resource_provider_id, resource_class_id, consumer_id, used)"
                    " VALUES (:provider, 1, :consumer, :used)"
                ),
                {"provider": provider, "consumer": consumer, "used": used},
            )
    return engine


@pytest.mark.parametrize(
    ("rows", "expected", "problem"),
    [
        ([(1, "i", 2), (1, "j", 2)], {"i": ("a", {"VCPU": 2}), "j": ("a", {"VCPU": 2})}, None),
        ([], {"i": ("a", {"VCPU": 2})}, "i should hold"),
        ([(2, "i", 2)], {"i": ("a", {"VCPU": 2})}, "i should hold"),
        ([(1, "x", 2)], {}, "Left over: x"),
        (
            [(1, "i", 3), (1, "j", 2)],
            {"i": ("a", {"VCPU": 3}), "j": ("a", {"VCPU": 2})},
            "More is used than provider a has: VCPU 5 of 4",
        ),
    ],
    ids=["well", "missing", "elsewhere", "left over", "over-committed"],
)
def test_a_database_is_compared_the_same_way(rows, expected, problem):
    found = truth.check_database(make_database(rows), expected)
    assert (found.problems == []) if problem is None else (problem in found.problems[0])
    assert bool(found.wrong or found.left_over) is bool(problem)
