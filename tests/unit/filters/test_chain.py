"""Running a chain: who is asked, and what the log says (spec: filters-and-weighers 1.4, 1.5)."""

import logging

import numpy as np
import pytest

from scheduler.filters.base import HostFilter, Judge
from scheduler.filters.chain import LONGEST_REASON, FilterChain
from scheduler.hosts.request_instances import Needs
from tests.builders import make_host, make_view
from tests.unit.filters.asking import make_request

REMOVED_ALL = "Filtering removed all hosts for the request with instance ID 'X'. Filter results: "


class Named(HostFilter):
    """Keeps the hosts that it is told to, and remembers how many it was asked about."""

    def __init__(self, *keep):
        self.keep = keep
        self.asked = []
        self.prepared = 0

    def prepare(self, request):
        self.prepared += 1
        return NamedJudge(self)


class NamedJudge(Judge):
    def __init__(self, rule):
        self.rule = rule

    def passes(self, hosts):
        self.rule.asked.append(len(hosts))
        return np.array([row.host in self.rule.keep for row in hosts.rows], dtype=bool)


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


def run(rules, hosts, index=0, changed=None, request=None):
    """What a chain of these filters does for a request."""
    indices = None if changed is None else np.array(changed, dtype=np.int64).reshape(-1)
    return FilterChain(rules).prepare(request or make_request()).run(hosts, index, indices)


def test_counts_and_names_are_logged_if_no_host_is_left(log):
    never = FilterA("Host1")
    run([FilterA("Host1", "Host2"), FilterB(), never], hosts("Host1", "Host2", "Host3")).log_empty("X")
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


def test_without_hosts_no_filter_is_run_and_the_first_is_logged(log):
    run([FilterA("Host1"), FilterB()], hosts()).log_empty("X")
    assert log("INFO") == [
        "Filter FilterA returned 0 hosts",
        f"{REMOVED_ALL}['FilterA: (start: 0, end: 0)']",
    ]


def test_only_counts_are_logged_if_a_host_is_left(log):
    run([FilterA("Host1")], hosts("Host1", "Host2")).log_empty("X")
    assert log("INFO") == []
    assert log("DEBUG") == ["Starting with 2 host(s)", "Filter FilterA returned 1 host(s)"]


def test_names_of_hosts_are_logged_at_debug_level_only(caplog):
    caplog.set_level(logging.INFO, "nova.filters")
    run([FilterA()], hosts("Host1")).log_empty("X")
    assert "None)" not in caplog.text


def test_a_filter_for_the_first_instance_is_not_run_for_the_second():
    rule = Once("Host1")
    assert len(run([rule], hosts("Host1"), 1, 0).hosts) == 1
    assert rule.asked == []


def test_for_later_instances_only_the_changed_host_is_judged():
    rule = FilterA("Host1", "Host3")
    left = run([rule], hosts("Host1", "Host2", "Host3"), 1, 1)
    assert rule.asked == [1]
    assert [row.host for row in left.hosts.rows] == ["Host1", "Host3"]
    assert left.kept.tolist() == [0, 2]


def test_changed_hosts_that_a_filter_rejects_are_not_judged_by_the_next():
    first, second = FilterA("Host1", "Host3", "Host4"), FilterB("Host1", "Host2", "Host3")
    left = run([first, second], hosts("Host1", "Host2", "Host3", "Host4"), 0, [1, 2, 3])
    assert (first.asked, second.asked) == ([3], [2])
    assert [row.host for row in left.hosts.rows] == ["Host1", "Host3"]
    assert left.kept.tolist() == [0, 2]


def test_reasons_name_filter_and_host():
    filtered = run([FilterA("Host2")], hosts("Host1", "Host2", "Host3"))
    assert list(filtered.reasons(at_most=1)) == [("Host1", "Host1", "FilterA: rejected")]


def test_a_reason_that_quotes_a_long_request_is_cut_off():
    class Quoting(Judge):
        def passes(self, hosts):
            return np.zeros(len(hosts), dtype=bool)

        def reason(self, host):
            return "x" * 10_000_000

    class Quotes(HostFilter):
        def prepare(self, request):
            return Quoting()

    filtered = run([Quotes(None)], hosts("Host1", "Host2"))
    assert [reason for _, _, reason in filtered.reasons()] == ["Quotes: " + "x" * LONGEST_REASON] * 2


def test_on_a_rebuild_check_only_filters_meant_for_it_are_prepared_and_run():
    ask, rebuild = FilterA("Host1"), FilterB("Host2")
    rebuild.RUN_ON_REBUILD = True
    request = make_request(hints={"_nova_check_type": ["rebuild"]}, force_hosts=["Host1", "Host2"])
    left = run([ask, rebuild], hosts("Host1", "Host2"), request=request)
    assert [row.host for row in left.hosts.rows] == ["Host2"]
    assert (ask.asked, rebuild.asked) == ([], [2])
    assert (ask.prepared, rebuild.prepared) == (0, 1)


def test_a_filter_is_prepared_once_for_all_instances_of_a_request():
    rule = FilterA("Host1")
    chain = FilterChain([rule]).prepare(make_request())
    for index in range(3):
        chain.run(hosts("Host1"), index)
    assert (rule.prepared, rule.asked) == (1, [1, 1, 1])


class Silent(Named):
    def prepare(self, request):
        return None


def test_a_filter_that_does_not_apply_lets_all_hosts_pass():
    rule = Silent()
    filtered = run([rule], hosts("Host1", "Host2"))
    assert [str(step) for step in filtered.steps] == ["Silent: (start: 2, end: 2)"]
    assert rule.asked == []


class Unreadable(HostFilter):
    """Cannot read any request."""

    def __init__(self):
        pass

    def prepare(self, request):
        raise ValueError("cannot be read")


def test_a_request_that_a_filter_cannot_read_fails_when_hosts_reach_the_filter():
    chain = FilterChain([FilterA("Host1"), Unreadable()]).prepare(make_request())
    with pytest.raises(ValueError, match="cannot be read"):
        chain.run(hosts("Host1"))


def test_a_request_that_a_filter_cannot_read_does_not_fail_if_no_host_reaches_the_filter():
    assert len(run([FilterA(), Unreadable()], hosts("Host1")).hosts) == 0


class Needy(Named):
    needs = frozenset({"instances", "image_properties"})

    def prepare(self, request):
        judge = NamedJudge(self)
        judge.instance_uuids = ["i1"]
        return judge


class SilentNeedy(Silent):
    needs = frozenset({"image_properties"})


@pytest.mark.parametrize(
    ("rules", "needs"),
    [
        ([FilterA()], Needs()),
        ([SilentNeedy()], Needs()),
        ([FilterA(), Needy()], Needs(frozenset({"i1"}), image_properties=True)),
    ],
    ids=["none declared", "declared but not applying", "declared"],
)
def test_a_prepared_chain_needs_what_the_filters_that_apply_declare(rules, needs):
    assert FilterChain(rules).prepare(make_request()).needs == needs
