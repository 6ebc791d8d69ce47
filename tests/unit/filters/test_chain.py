"""Running a chain: who is asked, and what the log says (spec: filters-and-weighers 1.4, 1.5)."""

import logging

import numpy as np
import pytest

from scheduler.filters.base import HostFilter
from scheduler.filters.chain import FilterChain
from tests.builders import make_host, make_view
from tests.unit.filters.asking import make_request

REMOVED_ALL = "Filtering removed all hosts for the request with instance ID 'X'. Filter results: "


class Named(HostFilter):
    """Keeps the hosts that it is told to, and remembers how many it was asked about."""

    def __init__(self, *keep):
        self.keep = keep
        self.asked = []

    def passes(self, hosts, request):
        self.asked.append(len(hosts))
        return np.array([row.host in self.keep for row in hosts.rows], dtype=bool)


class FilterA(Named):
    pass


class FilterB(Named):
    pass


class Once(Named):
    run_filter_once_per_request = True


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.DEBUG, "nova.filters")
    return lambda level: [
        record.getMessage()
        for record in caplog.records
        if record.levelname == level and record.name == "nova.filters"
    ]


def hosts(*names):
    return make_view([make_host(name) for name in names])


def test_what_is_logged_when_nobody_is_left(log):
    never = FilterA("Host1")
    FilterChain([FilterA("Host1", "Host2"), FilterB(), never]).run(
        hosts("Host1", "Host2", "Host3"), make_request()
    )
    assert log("INFO") == [
        "Filter FilterB returned 0 hosts",
        f"{REMOVED_ALL}['FilterA: (start: 3, end: 2)', 'FilterB: (start: 2, end: 0)']",
    ]
    assert log("DEBUG") == [
        "Starting with 3 host(s)",
        "Filter FilterA returned 2 host(s)",
        f"{REMOVED_ALL}[('FilterA', [('Host1', 'Host1'), ('Host2', 'Host2')]), ('FilterB', None)]",
    ]
    assert never.asked == []


def test_no_host_from_the_start(log):
    FilterChain([FilterA("Host1"), FilterB()]).run(hosts(), make_request())
    assert log("INFO") == [
        "Filter FilterA returned 0 hosts",
        f"{REMOVED_ALL}['FilterA: (start: 0, end: 0)']",
    ]


def test_somebody_is_left(log):
    FilterChain([FilterA("Host1")]).run(hosts("Host1", "Host2"), make_request())
    assert log("INFO") == []
    assert log("DEBUG") == ["Starting with 2 host(s)", "Filter FilterA returned 1 host(s)"]


def test_the_list_of_hosts_is_not_made_for_nobody(caplog):
    caplog.set_level(logging.INFO, "nova.filters")
    FilterChain([FilterA()]).run(hosts("Host1"), make_request())
    assert "None)" not in caplog.text


def test_a_filter_that_is_not_to_run_is_never_asked():
    rule = Once("Host1")
    chain = FilterChain([rule])
    assert len(chain.run(hosts("Host1"), make_request(), 1, 0).hosts) == 1
    assert rule.asked == []


def test_later_instances_ask_about_the_changed_host_alone():
    rule = FilterA("Host1", "Host3")
    left = FilterChain([rule]).run(hosts("Host1", "Host2", "Host3"), make_request(), 1, 1)
    assert rule.asked == [1]
    assert [row.host for row in left.hosts.rows] == ["Host1", "Host3"]
    assert left.kept.tolist() == [0, 2]


class Racks(Named):
    def reason(self, host, request):
        return f"in rack {host.host[0]}"


def test_a_summary_has_the_commonest_reasons_and_some_hosts_of_each():
    names = ["x1", "a1", "a2", "a3", "a4", "y1", "b1", "b2"]
    filtered = FilterChain([FilterA(*names[1:]), Racks()]).run(hosts(*names), make_request())
    assert list(filtered.summary(make_request(), at_most=2)) == [
        "FilterA: rejected (x1)",
        "Racks: in rack a (a1, a2, a3)",
        "Racks: in rack b (b1, b2)",
    ]


def test_reasons_name_filter_and_host():
    request = make_request()
    filtered = FilterChain([FilterA("Host2")]).run(hosts("Host1", "Host2", "Host3"), request)
    assert list(filtered.reasons(request, at_most=1)) == [("Host1", "Host1", "FilterA: rejected")]


def test_on_a_rebuild_only_those_meant_for_it_judge():
    ask, rebuild = FilterA("Host1"), FilterB("Host2")
    rebuild.RUN_ON_REBUILD = True
    request = make_request(hints={"_nova_check_type": ["rebuild"]}, force_hosts=["Host1", "Host2"])
    left = FilterChain([ask, rebuild]).run(hosts("Host1", "Host2"), request)
    assert [row.host for row in left.hosts.rows] == ["Host2"]
    assert (ask.asked, rebuild.asked) == ([], [2])
