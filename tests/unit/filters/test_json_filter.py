"""JsonFilter (spec: filters-and-weighers 2.17); tests/recorded has more verdicts, of nova."""

import json

import pytest

from scheduler.errors import NoValidHost, is_fault_of_request
from scheduler.filters import json_filter
from scheduler.filters.json_filter import JsonFilter
from tests.builders import make_host, make_view
from tests.unit.filters.asking import ask, ask_all, make_conf, make_request, why

NUMBERS = ["$stats.num_instances", 5]


def the_host():
    return make_host("h").ram(1024).disk(0).stats(num_instances="3").disabled()


def request_for(query):
    return make_request(hints={"query": [query if isinstance(query, str) else json.dumps(query)]})


@pytest.mark.parametrize(
    ("row", "query", "passes"),
    [
        (17, ["not", "$service.disabled"], False),
        (18, ["and", ["not", "$service.disabled"]], True),
        (19, ["not", ["not", True]], False),
        (22, ["=", "", "x", "x"], True),
        (27, "[]", True),
        (28, "{}", True),
        ("in among numbers", ["in", "$free_ram_mb", 1, 1024], True),
        ("in alone", ["in", "$free_ram_mb"], False),
        ("alone", ["=", "$free_ram_mb"], False),
        ("text is no number", ["=", "$free_ram_mb", "1024"], False),
        ("true is one", ["=", "$service.disabled", 1], True),
        ("between", ["<", 1000, "$free_ram_mb"], True),
        ("or over columns", ["or", "$free_disk_mb", ["=", "$hypervisor_type", "QEMU"]], False),
        ("null is dropped on the host", ["=", "$hypervisor_type", 1, 1], True),
        ("null in and", ["and", "$hypervisor_type"], True),
        ("null in or", ["or", "$hypervisor_type"], False),
        ("null in not", ["and", ["not", "$hypervisor_type"]], False),
        ("not in a comparison", ["=", ["not", "$free_disk_mb"], ["not", "$free_disk_mb"]], True),
        ("not of not", ["not", ["not", "$free_disk_mb"]], False),
        ("any negation", ["not", "$free_ram_mb", "$free_disk_mb"], True),
        ("objects stay as they are", ["=", {"a": 1}, {"a": 1}], True),
        ("an attribute of its own", ["=", "$host", "h"], True),
        ("one without a column", ["in", "$limits", {}], True),
        ("deeper", ["=", "$stats.x.y", 1, 1], True),
        ("private", ["=", "$_row", 1, 1], True),
        ("nothing", ["=", "$", 1, 1], True),
    ],
)
def test_table(row, query, passes):
    assert ask(JsonFilter, the_host(), request_for(query)) is passes


def test_without_a_query_all_hosts_pass():
    assert ask(JsonFilter, the_host(), make_request(hints=None))
    assert ask(JsonFilter, the_host(), make_request(hints={"query": []}))


@pytest.mark.parametrize(
    ("row", "query", "error"),
    [
        (25, ["<", *NUMBERS], TypeError),
        (29, ["!=", 1, 2], KeyError),
        (30, ["AND", True], KeyError),
        (31, {"a": 1}, KeyError),
        (32, "5", TypeError),
        (33, [["=", 1, 1]], TypeError),
        (34, ["=", "$aggregates.x", 1], AttributeError),
        (35, "not json", json.JSONDecodeError),
        ("keys of a number", ["=", "$free_ram_mb.x", 1], AttributeError),
        ("a number with a text", ["<", "$free_ram_mb", "1"], TypeError),
        ("two texts with a number", ["<", "$host", 1], TypeError),
        ("a pair after one that decides", ["<", "b", "a", 1], TypeError),
        ("a pair after one that decides on the host", ["<", "$host", "a", 1], TypeError),
        ("inside", ["and", ["nand", 1]], KeyError),
    ],
)
def test_raises(row, query, error):
    with pytest.raises(error) as caught:
        ask(JsonFilter, the_host(), request_for(query))
    assert is_fault_of_request(caught.value)


def nested(levels):
    query = ["and"]
    for _ in range(levels - 1):
        query = ["and", query]
    return query


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (["=", "$instances.x", 1], "$instances"),
        (["and", ["not", ["in", "$instances", 1]]], "$instances"),
        (["=", *[1] * json_filter.MOST_TERMS], "more than 500 terms"),
        (["or", *[["=", 1, 1]] * 200], "more than 500 terms"),
        (nested(60), "more than 50 levels"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    ],
    ids=["instances", "instances inside", "long", "wide", "deep", "beyond the JSON reader"],
)
def test_a_query_beyond_its_bounds_is_refused_with_a_reason(query, reason):
    with pytest.raises(NoValidHost) as refused:
        ask(JsonFilter, the_host(), request_for(query))
    assert reason in refused.value.reason


def test_a_query_within_its_bounds_is_evaluated():
    assert ask(JsonFilter, the_host(), request_for(nested(40)))
    assert ask(JsonFilter, the_host(), request_for(["and", *[[">=", "$free_ram_mb", 1]] * 100]))


def test_a_long_query_on_keys_of_many_hosts_is_refused(monkeypatch):
    monkeypatch.setattr(json_filter, "MOST_EVALUATIONS", 10)
    query = ["=", "$limits.x", 1, 1]
    assert ask(JsonFilter, the_host(), request_for(query))
    judge = JsonFilter(make_conf()).prepare(request_for(query))
    with pytest.raises(NoValidHost, match="too many to check 3 hosts"):
        judge.passes(make_view([make_host(name) for name in "abc"]))


def test_a_hint_with_two_queries_raises():
    with pytest.raises(TypeError):
        ask(JsonFilter, the_host(), make_request(hints={"query": ["[]", "[]"]}))


def test_hosts_are_told_apart():
    hosts = [make_host("a").ram(10).hypervisor("QEMU"), make_host("b").ram(20).hypervisor("QEMU")]
    hosts += [make_host("c").ram(20).hypervisor("ironic"), make_host("d").ram(20)]
    query = ["and", [">", "$free_ram_mb", 10], ["=", "$hypervisor_type", "QEMU"]]
    assert ask_all(JsonFilter(make_conf()), hosts, request_for(query)) == [False, True, False, False]


@pytest.mark.parametrize(
    "query",
    [
        ["and", [">=", "$free_ram_mb", 1], ["not", ["in", "$host", "h"]]],
        ["or", ["=", "$stats.num_instances", "3"], ["<", "$vcpus_used", "$vcpus_total"]],
        ["=", "$service.forced_down", False],
    ],
)
def test_usual_queries_look_at_no_single_host(query):
    assert json_filter.verdicts(query, make_view([the_host()])).shape == (1,)


def test_consumption_counts():
    view = make_view([make_host("h").ram(1024)])
    judge = JsonFilter(make_conf()).prepare(request_for([">=", "$free_ram_mb", 1024]))
    assert judge.passes(view).all()
    view.consume(0, free_ram_mb=-1)
    assert not judge.passes(view).any()


def test_reason():
    assert why(JsonFilter, the_host(), request_for(["or"])) == "query is false"
