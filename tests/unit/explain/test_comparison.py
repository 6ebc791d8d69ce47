"""Recorded requests are decided again, with the options in use and with others."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.conf.changed import ChangedOptions, read_changes
from scheduler.explain.comparison import RuleSet, compare, joined
from scheduler.explain.record import CandidateSource
from scheduler.hosts.request_instances import NoInstances
from scheduler.request.scheduling_request import RequestKind, SchedulingRequest
from scheduler.rules.drivers import load_rules
from tests.support.options import make_conf
from tests.unit.explain.decisions import decide
from tests.unit.filters.asking import make_spec
from tests.unit.selection.requests import host_with_candidate


@pytest.fixture(scope="module")
def conf():
    return make_conf(enabled_filters=["ComputeFilter", "NumInstancesFilter"], max_instances_per_host=50)


def fleet():
    """Hosts with 4096 MB in all, of which ever more are free."""
    return [host_with_candidate(f"h{free}").ram(1024 * free, 4096).vcpus(64) for free in (1, 2, 3, 4)]


def recorded(conf, hosts, count, **fields):
    """Records of requests for 1024 MB that came one after the other, all to an unchanged cloud."""
    records = []
    for number in range(count):
        spec = make_spec(sizes={"memory_mb": 1024}, instance_uuid=f"i{number}", **fields)
        record, *_ = decide(conf, hosts, SchedulingRequest.of(spec, [f"i{number}"]))
        record.request_id = f"req-{number}"
        records.append(record)
    return records


def compared(conf, records, pause=lambda: None, **settings):
    changed = ChangedOptions(conf, read_changes(settings))
    rules = [RuleSet(each, load_rules(each)) for each in (conf, changed)]
    return compare(records, *rules, NoInstances(), pause)


def test_without_a_change_nothing_differs_and_requests_see_what_was_placed_before(conf):
    found = compared(conf, recorded(conf, fleet(), 4))
    assert found["differing"] == 0
    assert [one["now"] for one in found["choices"]] == ["h4", "h3", "h4", "h2"]
    assert {one["chosen"] for one in found["choices"]} == {"h4"}


def test_another_multiplier_fills_hosts_instead_of_spreading(conf):
    found = compared(conf, recorded(conf, fleet(), 4), ram_weight_multiplier="-1")
    assert [one["changed"] for one in found["choices"]] == ["h1", "h2", "h2", "h3"]
    assert found["spread"]["now"] | {"ram_used_deviation_percent": 0} == {
        "instances": 4,
        "failed_requests": 0,
        "hosts": 3,
        "most_on_one_host": 2,
        "ram_used_mean_percent": 62.5,
        "ram_used_deviation_percent": 0,
    }
    before, after = found["spread"]["now"], found["spread"]["changed"]
    assert after["ram_used_deviation_percent"] > before["ram_used_deviation_percent"]
    assert found["differing"] == 4


def test_other_filters_leave_requests_without_a_host(conf):
    hosts = [host.num_instances(3) for host in fleet()]
    found = compared(conf, recorded(conf, hosts, 2), max_instances_per_host="3")
    assert [one["changed"] for one in found["choices"]] == [None, None]
    assert found["spread"]["changed"]["failed_requests"] == 2


def test_records_are_not_changed_by_a_comparison(conf):
    records = recorded(conf, fleet(), 3)
    table = records[0].hosts.table
    before = {name: column.copy() for name, column in table.numbers.items()}
    first = compared(conf, records, ram_weight_multiplier="-1")
    assert all((table.numbers[name] == before[name]).all() for name in ("free_ram_mb", "num_instances"))
    assert compared(conf, records, ram_weight_multiplier="-1") == first


def test_requests_that_cannot_be_decided_again_are_counted_by_the_reason(conf):
    records = recorded(conf, fleet(), 6)
    dropped, empty, silent, held, rebuild, _ = records
    dropped.drop_hosts()
    for record, source in (
        (empty, CandidateSource("placement")),
        (silent, CandidateSource("placement", failed=True)),
        (held, CandidateSource("held", 1)),
    ):
        record.hosts, record.allowed, record.candidates = None, None, source
    rebuild.request = replace(rebuild.request, kind=RequestKind.REBUILD_CHECK)
    found = compared(conf, records)
    assert found["left_out"] == {
        "hosts are no longer kept": 1,
        "Placement offered no host": 1,
        "Placement gave no answer": 1,
        "redelivered, answered with the hosts that its instances held": 1,
        "rebuild check": 1,
    }
    assert (found["requests"], found["instances"]) == (1, 1)


def test_hosts_that_are_dropped_meanwhile_do_not_change_a_comparison(conf):
    """New requests come while old ones are compared, and the memory of decisions is full."""
    left = recorded(conf, fleet(), 4)

    def drop_oldest():
        next((record for record in left if record.hosts), left[0]).drop_hosts()

    expected = compared(conf, recorded(conf, fleet(), 4), ram_weight_multiplier="-1")
    found = compared(conf, left, drop_oldest, ram_weight_multiplier="-1")
    times = [{"time": one["time"]} for one in expected["choices"]]
    assert [one | time for one, time in zip(found["choices"], times, strict=True)] == expected["choices"]
    rest = compared(conf, left)
    assert (rest["requests"], rest["left_out"]) == (0, {"hosts are no longer kept": 4})
    whole = joined({"ctl.0": rest | {"options": []}, "ctl.1": found | {"options": []}})
    assert (whole["requests"], whole["spread"]) == (4, found["spread"])
    assert whole["left_out"] == {"hosts are no longer kept": 4}


def test_what_several_workers_say_is_joined(conf):
    """Two workers that begin with the same hosts, and do not know of each other."""
    hosts = fleet()
    both = recorded(conf, hosts, 4)
    for number, record in enumerate(both):
        record.started_at = 1000.0 + number
    found = {
        name: compared(conf, records, ram_weight_multiplier="-1") | {"options": ["the same"]}
        for name, records in (("ctl.0", both[::2]), ("ctl.1", both[1::2]))
    }
    whole = joined(found)
    assert (whole["scheduler"], whole["requests"], whole["options"]) == ("ctl.0, ctl.1", 4, ["the same"])
    assert [one["instance"] for one in whole["choices"]] == ["i0", "i1", "i2", "i3"]
    assert [one["now"] for one in whole["choices"]] == ["h4", "h4", "h3", "h3"]
    assert whole["differing"] == sum(one["differing"] for one in found.values())
    now = whole["spread"]["now"]
    used = [0.75, 0.5, 0.25 + 0.5, 0.5]  # of h1 to h4, after two instances each on h3 and h4
    assert (now["instances"], now["hosts"], now["most_on_one_host"]) == (4, 2, 2)
    assert now["ram_used_mean_percent"] == pytest.approx(np.mean(used) * 100, abs=0.01)
    assert now["ram_used_deviation_percent"] == pytest.approx(np.std(used) * 100, abs=0.01)


def test_what_one_worker_says_is_not_changed_by_joining(conf):
    found = compared(conf, recorded(conf, fleet(), 4), ram_weight_multiplier="-1") | {"options": []}
    assert joined({"ctl.0": found}) == found | {"scheduler": "ctl.0"}


def test_several_instances_of_a_request_are_compared_one_by_one(conf):
    spec = make_spec(sizes={"memory_mb": 1024}, instance_uuid="a")
    record, *_ = decide(conf, fleet(), SchedulingRequest.of(spec, ["a", "b"]))
    found = compared(conf, [record], ram_weight_multiplier="-1")
    assert [(one["instance"], one["now"], one["changed"]) for one in found["choices"]] == [
        ("a", "h4", "h1"),
        ("b", "h3", "h2"),
    ]
