"""The example package: found by its paths, and both styles of a rule agree."""

from pathlib import Path

import pytest

from scheduler.filters.chain import FilterChain
from scheduler.rules import load_filters as filter_loader
from scheduler.rules import load_weighers as weight_loader
from tests.builders import make_host, make_view
from tests.unit.selection.requests import make_conf, make_request, make_spec
from tests.unit.weights.weighing import scores

PACKAGE = Path(__file__).parents[3] / "examples" / "berth-example-rules"


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    monkeypatch.syspath_prepend(PACKAGE)


def hosts():
    return make_view(
        [
            make_host("h1").ram(1000, 4000).aggregate("one", rack="r1"),
            make_host("h2").ram(3000, 4000).aggregate("two", rack="r2"),
            make_host("h3").ram(8000, 64000),
        ]
    )


@pytest.mark.parametrize("name", ["RackFilter", "RackArrayFilter"])
@pytest.mark.parametrize(
    ("hint", "left"),
    [(None, ["h1", "h2", "h3"]), (["r1"], ["h1"]), (["r1", "r2"], ["h1", "h2"]), (["r9"], [])],
)
def test_filters(name, hint, left):
    conf = make_conf(available_filters=[f"example_rules.racks.{name}"], enabled_filters=[name])
    (rule,) = filter_loader.load(conf)
    request = make_request(make_spec(scheduler_hints={} if hint is None else {"rack": hint}))
    filtered = FilterChain([rule]).prepare(request).run(hosts())
    assert [row.host for row in filtered.hosts.rows] == left


@pytest.mark.parametrize("name", ["EvenFillWeigher", "EvenFillArrayWeigher"])
def test_weighers(name):
    weighers = weight_loader.load(make_conf(weight_classes=[f"example_rules.racks.{name}"]))
    assert scores(weighers, hosts()).totals().tolist() == pytest.approx([0.2, 1.0, 0.0])


def test_the_array_filter_says_why():
    (rule,) = filter_loader.load(
        make_conf(
            available_filters=["example_rules.racks.RackArrayFilter"], enabled_filters=["RackArrayFilter"]
        )
    )
    request = make_request(make_spec(scheduler_hints={"rack": ["r1"]}))
    filtered = FilterChain([rule]).prepare(request).run(hosts())
    assert [(host, reason) for host, _, reason in filtered.reasons()] == [
        (host, "RackArrayFilter: not in rack r1") for host in ("h2", "h3")
    ]
