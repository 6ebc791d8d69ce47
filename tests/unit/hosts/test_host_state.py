import copy
from datetime import UTC, datetime
import json

import netaddr
import numpy as np
import pytest

from scheduler.hosts.host_state import HostState, service_map
from scheduler.hosts.nova_values import NumaTopology, PciStats
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.rows import Metric, Parsed
from scheduler.hosts.view import HostView
from scheduler.numa.topology import HostTopology
from scheduler.pci.pools import PoolSet, from_flat
from scheduler.placement.answer import AllocationCandidate
from tests.builders import CELL, Instances, make_host, make_table, make_view, uuid_of

# spec: filters-and-weighers 1.12
ATTRIBUTES = {
    "host", "nodename", "uuid", "cell_uuid", "free_ram_mb", "total_usable_ram_mb", "free_disk_mb", "total_usable_disk_gb",
    "disk_mb_used", "vcpus_total", "vcpus_used", "num_instances", "num_io_ops", "failed_builds", "cpu_allocation_ratio",
    "ram_allocation_ratio", "disk_allocation_ratio", "hypervisor_type", "hypervisor_version", "hypervisor_hostname",
    "numa_topology", "pci_stats", "cpu_info", "stats", "metrics", "host_ip", "supported_instances", "aggregates",
    "updated", "service", "instances", "limits", "allocation_candidates",
}  # fmt: skip


def offer(provider):
    allocations = {provider: {"resources": {"VCPU": 1}}}
    return AllocationCandidate.of("a", ("a",), allocations, {"": [provider]})


def state_of(host):
    return make_view([host]).host(0)


def test_public_attributes():
    attributes = {
        name for name, value in vars(HostState).items() if name[0] != "_" and hasattr(value, "__get__")
    }
    assert attributes - {"update", "consume_from_request"} == ATTRIBUTES


@pytest.mark.parametrize(
    ("host", "name", "expected"),
    [
        (make_host("h1", "n1"), "host", "h1"),
        (make_host("h1", "n1"), "nodename", "n1"),
        (make_host("h1", "n1"), "hypervisor_hostname", "n1"),
        (make_host("h1", "n1"), "uuid", uuid_of("n1")),
        (make_host("h1"), "cell_uuid", CELL),
        (make_host("h1").ram(5, 9), "free_ram_mb", 5),
        (make_host("h1").ram(5, 9), "total_usable_ram_mb", 9),
        (make_host("h1").disk(-1, 7, 3), "free_disk_mb", -1),
        (make_host("h1").disk(-1, 7, 3), "total_usable_disk_gb", 7),
        (make_host("h1").disk(-1, 7, 3), "disk_mb_used", 3),
        (make_host("h1").vcpus(8, 2), "vcpus_total", 8),
        (make_host("h1").vcpus(8, 2), "vcpus_used", 2),
        (make_host("h1").num_instances(3), "num_instances", 3),
        (make_host("h1").io_ops(4), "num_io_ops", 4),
        (make_host("h1").failed_builds(5), "failed_builds", 5),
        (make_host("h1").ratios(1.5, 2.5, 3.5), "cpu_allocation_ratio", 1.5),
        (make_host("h1").ratios(1.5, 2.5, 3.5), "ram_allocation_ratio", 2.5),
        (make_host("h1").ratios(1.5, 2.5, 3.5), "disk_allocation_ratio", 3.5),
        (make_host("h1").hypervisor("QEMU", 8002002), "hypervisor_type", "QEMU"),
        (make_host("h1").hypervisor("QEMU", 8002002), "hypervisor_version", 8002002),
        (make_host("h1").cpu_info({"arch": "x86_64"}), "cpu_info", '{"arch": "x86_64"}'),
        (make_host("h1").stats(io_workload="1"), "stats", {"io_workload": "1"}),
        (make_host("h1"), "numa_topology", None),
        (make_host("h1").numa(HostTopology()), "numa_topology", NumaTopology(HostTopology())),
        (make_host("h1"), "pci_stats", None),
        (make_host("h1").pci(PoolSet()), "pci_stats", PciStats(PoolSet())),
        (make_host("h1").ip("2001:DB8::1"), "host_ip", netaddr.IPAddress("2001:db8::1")),
        (make_host("h1"), "host_ip", None),
        (make_host("h1").supports(("x86_64", "kvm", "hvm")), "supported_instances", [["x86_64", "kvm", "hvm"]]),
        (make_host("h1"), "updated", None),
        (make_host("h1").set(updated=datetime(2026, 1, 2)), "updated", datetime(2026, 1, 2, tzinfo=UTC)),
        (make_host("h1"), "limits", {}),
        (make_host("h1").candidate(offer("a")), "allocation_candidates", [offer("a").as_dict()]),
    ],
)  # fmt: skip
def test_values(host, name, expected):
    value = getattr(state_of(host), name)
    assert value == expected
    assert type(value) is type(expected)


def test_metrics_and_aggregates():
    state = state_of(make_host("h1").metrics({"cpu.percent": 28}).az("a"))
    assert [(metric.name, metric.value) for metric in state.metrics] == [("cpu.percent", 28)]
    assert [aggregate.availability_zone for aggregate in state.aggregates] == ["a"]


def test_service():
    state = state_of(
        make_host("h1").disabled("why").service(last_seen_up=datetime(2026, 1, 2), updated_at=None)
    )
    service = state.service
    assert (service["disabled"], service["disabled_reason"]) == (True, "why")
    assert service["last_seen_up"] == datetime(2026, 1, 2, tzinfo=UTC)
    assert (service["deleted"], service["deleted_at"], service["updated_at"]) == (False, None, None)
    assert set(service) == {
        "id", "uuid", "host", "binary", "topic", "report_count", "disabled", "disabled_reason", "last_seen_up",
        "forced_down", "version", "created_at", "updated_at", "deleted_at", "deleted",
    }  # fmt: skip
    with pytest.raises(TypeError):
        service["disabled"] = False


@pytest.mark.parametrize(("read_at", "day"), [(2, 4), (5, 5)])
def test_a_service_that_is_alive_was_seen_when_the_table_was_read(read_at, day):
    service = make_host("h1").service(last_seen_up=datetime(2026, 1, read_at), alive=True).service_row()
    assert service_map(service, datetime(2026, 1, 4))["last_seen_up"] == datetime(2026, 1, day, tzinfo=UTC)


def test_what_may_be_written():
    view = make_view([make_host("h1")])
    state = view.host(0)
    state.limits["numa_topology"] = 1
    assert view.limits(0) == {"numa_topology": 1}
    state.limits = {"other": 2}
    assert view.limits(0) == {"other": 2}


@pytest.mark.parametrize("name", sorted(ATTRIBUTES - {"allocation_candidates"}))
def test_each_attribute_can_be_set_for_the_request(name):
    hosts = [make_host("h1")]
    view = make_view(hosts)
    setattr(view.host(0), name, 7)
    assert getattr(view.host(0), name) == 7
    assert getattr(make_view(hosts).host(0), name) != 7


def test_a_number_that_is_set_counts_for_all_rules_of_the_request():
    table = make_table([make_host("h1").ram(5, 9), make_host("h2").ram(6, 9)])
    view = HostView.of(table, np.arange(2))
    part = view.at([1, 0])
    assert [list(each.numbers("free_ram_mb")) for each in (view, part)] == [[5, 6], [6, 5]]
    assert list(view.numbers("total_usable_ram_mb")) == [9, 9]
    view.host(0).free_ram_mb -= 2
    view.host(0).total_usable_ram_mb -= 2
    assert [list(each.numbers("free_ram_mb")) for each in (view, part)] == [[3, 6], [6, 3]]
    assert list(view.numbers("total_usable_ram_mb")) == [7, 9]
    view.consume(0, free_ram_mb=-1)
    assert view.host(0).free_ram_mb == view.numbers("free_ram_mb")[0] == 2
    assert list(table.numbers["free_ram_mb"]) == [5, 6]


def test_candidates_are_dictionaries_that_can_be_used_as_nova_s():
    offered = [offer("a"), offer("b"), offer("c"), offer("d")]
    view = make_view([make_host("h1").candidate(*offered)])
    state = view.host(0)
    first, second, third, _ = state.allocation_candidates
    assert json.loads(json.dumps(first)) == dict(first) == offered[0].as_dict()
    assert first.get("mappings") == {"": ["a"]}
    assert list(view.candidates(0)) == offered
    state.allocation_candidates.remove(first)
    assert list(view.candidates(0)) == offered[1:]
    third["mappings"][""] = ["other"]
    state.allocation_candidates = [copy.deepcopy(second), third]
    second_claimed, third_claimed = view.candidates(0)
    assert second_claimed is offered[1]
    assert (third_claimed.root, third_claimed.mappings) == ("a", {"": ["other"]})
    view.narrow(0, [third_claimed])
    assert state.allocation_candidates == [third]


def test_instances_with_those_of_this_request():
    hosts = [make_host("h1").holding("i1")]
    source = Instances(hosts)
    view = make_view(hosts, instances=source)
    assert list(view.host(0).instances) == ["i1"]
    view.place_instance(0, "i2")
    assert list(view.host(0).instances) == ["i1", "i2"]
    assert view.host(0).instances["i2"].uuid == "i2"
    assert source.asked == 1


def test_text():
    assert repr(state_of(make_host("h1", "n1").ram(7).candidate("a"))) == (
        "(h1, n1) ram: 7MB disk: 0MB io_ops: 0 instances: 0, allocation_candidates: 1"
    )


def test_names_that_nova_has():
    state = state_of(make_host("h1").ram(1))
    state.update(compute=None)
    state.consume_from_request(None)
    assert state.free_ram_mb == 1


def test_deeply_nested_stats_can_be_read():
    nested = []
    for _ in range(800):
        nested = [nested]
    assert state_of(make_host("h1").stats(deep=nested)).stats["deep"] == nested


def change_stats(state):
    state.stats["failed_builds"] = "99"


def change_nested_stats(state):
    state.stats["list"].append("x")


def change_aggregate_metadata(state):
    state.aggregates[0].metadata["ssd"] = "false"


def change_metric(state):
    state.metrics[0].numa_membw_values["0"] = 99


@pytest.mark.parametrize(
    "change",
    [change_stats, change_nested_stats, change_aggregate_metadata, change_metric],
    ids=lambda function: function.__name__,
)
def test_what_a_rule_changes_in_a_dictionary_ends_with_its_request(change):
    metrics = Parsed((Metric("numa.membw.current", None, None, None, {"0": 1}),))
    host = make_host("h1").set(stats=Parsed({"a": "b", "list": []}), metrics=metrics)
    table = make_table([host.aggregate("fast", ssd="true")])

    def state_in_a_request():
        return HostView.of(table, table.find([uuid_of("h1")]), None, Instances([]), PendingPlacements()).host(
            0
        )

    change(state_in_a_request())
    state = state_in_a_request()
    assert state.stats == {"a": "b", "list": []}
    assert [dict(one.metadata) for one in state.aggregates] == [{"ssd": "true"}]
    assert state.metrics[0].numa_membw_values == {"0": 1}


def test_what_a_rule_changes_is_seen_by_later_rules_of_the_request():
    view = make_view([make_host("h1")])
    view.host(0).stats["seen"] = "yes"
    assert view.host(0).stats["seen"] == "yes"


def test_metrics_are_a_list_as_nova_s():
    metric = Metric("cpu.idle.percent", 90, "2026-01-02T03:04:05", "test")
    memory = Metric("numa.membw.current", None, "2026-01-02T03:04:05", "test", {"0": 1})
    metrics = state_of(make_host("h1").set(metrics=Parsed((metric, memory)))).metrics
    assert [one.name for one in metrics.objects] == ["cpu.idle.percent", "numa.membw.current"]
    source = {"timestamp": "2026-01-02T03:04:05", "source": "test"}
    assert metrics.to_list() == [
        {"name": "cpu.idle.percent", "value": 0.9, **source},
        {"name": "numa.membw.current", "numa_membw_values": {"0": 1}, **source},
    ]


def test_the_hosts_of_an_aggregate_are_a_list():
    view = make_view([make_host("h2").aggregate("a"), make_host("h1").aggregate("a")])
    (aggregate,) = view.host(0).aggregates
    assert aggregate.hosts == ["h1", "h2"]


@pytest.mark.parametrize(("value", "there"), [("true", True), ("false", False), (None, False)])
def test_pools_of_devices_that_another_machine_manages(value, there):
    tags = {} if value is None else {"remote_managed": value}
    state = state_of(make_host("h1").pci(from_flat([{"vendor_id": "1", "count": 1, **tags}])))
    assert state.pci_stats.has_remote_managed_device_pools() is there
