"""What operators search the log for (spec: placement-and-workflow 5.8, filters-and-weighers 1.6)."""

import logging

import pytest

from scheduler.decisions.trace import Trace
from scheduler.errors import NoValidHost
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Written
from scheduler.selection.narrowing import narrow
from scheduler.selection.ranking import SHOWN
from tests.builders import make_host, make_view, uuid_of
from tests.unit.selection.requests import (
    REFUSED,
    FakeClaims,
    destination,
    host_with_candidate,
    make_request,
    make_spec,
)
from tests.unit.selection.test_driver import select


@pytest.fixture
def log(caplog):
    """Lines of a level that begin with a text."""
    caplog.set_level(logging.DEBUG)
    return lambda level, begin: [
        record.getMessage()
        for record in caplog.records
        if record.levelname == level and record.getMessage().startswith(begin)
    ]


def hosts(*free_ram):
    return [host_with_candidate(f"h{number}").ram(ram) for number, ram in enumerate(free_ram, 1)]


def shown(name, ram, io_ops=0):
    return f"({name}, {name}) ram: {ram}MB disk: 102400MB io_ops: {io_ops} instances: 0, allocation_candidates: 1"


def test_a_choice(log):
    select(hosts(2048, 4096), ["i1"], spec=make_spec())
    (filtered,) = log("DEBUG", "Filtered [")
    assert filtered == f"Filtered [{shown('h1', 2048)}, {shown('h2', 4096)}]"
    (weighed,) = log("DEBUG", "Weighed [")
    assert weighed.startswith(f"Weighed [WeighedHost [host: {shown('h2', 4096)}, weight: ")
    assert log("DEBUG", "Selected host: ") == [f"Selected host: {shown('h2', 4096)}"]


def test_what_each_weigher_added_is_logged_with_the_host(log):
    select(hosts(2048, 4096), ["i1"], spec=make_spec())
    first, second = log("DEBUG", "Weights of host ")
    assert first.startswith("Weights of host h2 (h2): ")
    assert second.startswith("Weights of host h1 (h1): ")
    assert "RAMWeigher 1" in first
    assert "RAMWeigher 0" in second


def test_the_selected_host_is_the_one_that_was_claimed(log):
    select(hosts(2048, 4096), ["i1"], FakeClaims({uuid_of("h2"): REFUSED}))
    assert log("DEBUG", "Selected host: ") == [f"Selected host: {shown('h1', 2048)}"]


def test_long_lists_are_cut(log):
    select(hosts(*range(2048, 2048 + SHOWN + 3)), ["i1"])
    for line in log("DEBUG", "Filtered [") + log("DEBUG", "Weighed ["):
        assert line.endswith(" and 3 more")
        assert line.count("ram: ") == SHOWN


def test_too_few_hosts(log):
    claims = FakeClaims({uuid_of("h1"): [Written(Outcome.DONE), REFUSED, REFUSED]})
    with pytest.raises(NoValidHost):
        select(hosts(2048), ["i1", "i2"], claims)
    assert log("DEBUG", "There are ") == ["There are 1 hosts available but 2 instances requested to build"]
    assert log("DEBUG", "Unable to") == ["Unable to successfully claim against any host for instance i2"]


def test_nobody_was_asked_if_nobody_is_left(log):
    trace = Trace(make_request(uuids=["i1"]))
    with pytest.raises(NoValidHost):
        select([], ["i1"], observer=trace)
    assert log("INFO", "") == []
    trace.write_log()
    assert log("DEBUG", "Unable to") == []
    assert log("INFO", "Filtering removed all hosts for the request with instance ID 'i1'")


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"ignore_hosts": ["A", "zz", "B"]}, "Host filter ignoring hosts: A, A, B"),
        ({"ignore_hosts": ["zz"]}, "Host filter ignoring hosts: "),
        ({"force_hosts": ["A"]}, "Host filter forcing available hosts to a"),
        ({"force_nodes": ["n2", "b"]}, "Host filter forcing available nodes to b, n2"),
        ({"force_hosts": ["zz"]}, "No hosts matched due to not matching 'force_hosts' value of '['zz']'"),
        ({"force_nodes": ["zz"]}, "No hosts matched due to not matching 'force_nodes' value of '['zz']'"),
        (
            {"requested_destination": destination(host="a", node="n1")},
            "Host filter only checking host a and node n1",
        ),
        (
            {"requested_destination": destination(host="zz", node=None)},
            "No hosts matched due to not matching requested destination (zz, None)",
        ),
    ],
)
def test_what_a_request_says_of_hosts(log, fields, line):
    view = make_view([make_host("a", "n1"), make_host("a", "n2"), make_host("b")])
    narrow(view, make_request(make_spec(**fields))).log()
    (logged,) = log("INFO", "")
    assert logged == line


def test_those_lines_come_from_the_logger_that_operators_know(caplog):
    caplog.set_level(logging.INFO, "nova.scheduler.host_manager")
    narrow(make_view([make_host("a")]), make_request(make_spec(ignore_hosts=["a"]))).log()
    assert [record.name for record in caplog.records] == ["nova.scheduler.host_manager"]
