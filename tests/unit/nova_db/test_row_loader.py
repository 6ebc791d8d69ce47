from datetime import datetime
import ipaddress
import logging
from types import SimpleNamespace

import pytest

from scheduler import conf as options
from scheduler.hosts.rows import ServiceRow
from scheduler.nova_db.row_loader import NODE_COLUMNS, RowLoader
from tests.builders import CELL

STORED = {
    "id": 7,
    "uuid": "u7",
    "service_id": None,
    "host": "cmp1",
    "hypervisor_hostname": "node1",
    "vcpus": 16,
    "memory_mb": 32768,
    "local_gb": 100,
    "vcpus_used": 3,
    "local_gb_used": 20,
    "free_ram_mb": -5,
    "free_disk_gb": 80,
    "disk_available_least": None,
    "hypervisor_type": "QEMU",
    "hypervisor_version": 8002002,
    "cpu_info": "",
    "host_ip": "192.0.2.1",
    "supported_instances": "[]",
    "metrics": "[]",
    "pci_stats": None,
    "stats": "{}",
    "numa_topology": None,
    "cpu_allocation_ratio": 16.0,
    "ram_allocation_ratio": 1.5,
    "disk_allocation_ratio": 1.0,
    "updated_at": datetime(2026, 1, 2),
}


@pytest.fixture
def conf():
    conf = options.new()
    conf([], default_config_files=[])
    return conf


@pytest.fixture
def loader(conf):
    return RowLoader(conf)


def stored(**columns):
    return SimpleNamespace(**STORED | columns)


def test_the_columns_read_are_those_loaded():
    assert {column.name for column in NODE_COLUMNS} == set(STORED)


def test_a_row_becomes_plain_values(loader):
    row = loader.node(
        stored(stats='{"num_instances": "3", "io_workload": 1, "failed_builds": null}'), CELL, {}
    )
    assert (row.id, row.uuid, row.cell_uuid, row.host, row.nodename) == (7, "u7", CELL, "cmp1", "node1")
    assert (row.free_ram_mb, row.total_usable_ram_mb) == (-5, 32768)
    assert (row.free_disk_mb, row.total_usable_disk_gb, row.disk_mb_used) == (80 * 1024, 100, 20 * 1024)
    assert (row.vcpus_total, row.vcpus_used) == (16, 3)
    assert (row.num_instances, row.num_io_ops, row.failed_builds) == (3, 1, 0)
    assert (row.hypervisor_type, row.hypervisor_version, row.host_ip) == ("QEMU", 8002002, "192.0.2.1")
    assert (row.cpu_allocation_ratio, row.ram_allocation_ratio, row.disk_allocation_ratio) == (16.0, 1.5, 1.0)
    assert (row.numa_topology, row.pci_stats.pools, row.updated) == (None, (), datetime(2026, 1, 2))


@pytest.mark.parametrize(
    ("free", "least", "expected"),
    [(80, 90, 81920), (80, None, 81920), (80, -5, -5120), (-3, 70, -3072), (80, 0, 0)],
)
def test_free_disk_is_the_smaller_of_both_amounts(loader, free, least, expected):
    assert (
        loader.node(stored(free_disk_gb=free, disk_available_least=least), CELL, {}).free_disk_mb == expected
    )


@pytest.mark.parametrize(
    ("in_row", "configured", "expected"),
    [
        (None, None, 4.0),
        (0.0, None, 4.0),
        (2.5, None, 2.5),
        (None, 8.0, 8.0),
        (2.5, 8.0, 2.5),
        (None, 0.0, 4.0),
    ],
)
def test_allocation_ratios_of_the_row_count_before_those_of_the_options(conf, in_row, configured, expected):
    conf.set_override("cpu_allocation_ratio", configured)
    row = RowLoader(conf).node(stored(cpu_allocation_ratio=in_row), CELL, {})
    assert row.cpu_allocation_ratio == expected


def test_default_ratios_of_ram_and_disk(loader):
    row = loader.node(stored(ram_allocation_ratio=None, disk_allocation_ratio=0.0), CELL, {})
    assert (row.ram_allocation_ratio, row.disk_allocation_ratio) == (1.0, 1.0)


@pytest.mark.parametrize("missing", ["uuid", "host", "hypervisor_hostname", "free_disk_gb"])
def test_a_row_without_a_needed_column_is_left_out(loader, missing):
    assert loader.node(stored(**{missing: None}), CELL, {}) is None


def test_a_row_without_host_takes_that_of_its_service(loader):
    services = {3: ServiceRow(3, None, "cmp3")}
    assert loader.node(stored(host=None, service_id=3), CELL, services).host == "cmp3"
    assert loader.node(stored(host=None, service_id=4), CELL, services) is None


def test_a_new_row_that_its_compute_has_not_filled_is_left_out_without_a_report(loader, caplog):
    loader.node(stored(free_disk_gb=None), CELL, {})
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("stats", "{"),
        ("metrics", "{"),
        ("supported_instances", '[["a"]]'),
        ("pci_stats", '[{"vendor_id": "8086"}]'),
        ("host_ip", "nowhere"),
        ("disk_available_least", 90),
        ("numa_topology", "{"),
    ],
)
def test_an_unreadable_value_is_reported_once_and_the_host_stays(loader, caplog, column, text):
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            assert loader.node(stored(**{column: text}, free_ram_mb=number), CELL, {}).free_ram_mb == number
        loader.node(stored(**{column: text}, hypervisor_hostname="node2"), CELL, {})
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "node1" in said[0]
    assert "node2" in said[1]


def test_an_unreadable_topology_has_a_problem(loader):
    assert loader.node(stored(numa_topology="{"), CELL, {}).numa_topology.problem
    assert loader.node(stored(pci_stats='[{"vendor_id": "8086"}]'), CELL, {}).pci_stats.problem


@pytest.mark.parametrize("column", ["free_disk_gb", "local_gb_used", "vcpus", "cpu_allocation_ratio"])
def test_a_row_that_cannot_be_read_is_left_out_alone(loader, caplog, column):
    assert loader.node(stored(**{column: "much"}), CELL, {}) is None
    assert "node1" in caplog.text


@pytest.mark.parametrize("ratio", [float("inf"), float("nan"), -1e308])
def test_a_row_with_an_allocation_ratio_that_makes_no_sense_is_left_out(loader, caplog, ratio):
    assert loader.node(stored(ram_allocation_ratio=ratio), CELL, {}) is None
    assert "ram_allocation_ratio" in caplog.text


@pytest.mark.parametrize(
    "column", ["free_ram_mb", "memory_mb", "local_gb", "vcpus_used", "hypervisor_version"]
)
@pytest.mark.parametrize("amount", [2**62, -(2**80), 10**400], ids=["2^62", "-2^80", "10^400"])
def test_a_row_with_an_amount_beyond_the_columns_of_the_table_is_left_out(loader, caplog, column, amount):
    assert loader.node(stored(**{column: amount}), CELL, {}) is None
    assert "node1" in caplog.text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2001:DB8:0::1", "2001:db8::1"),
        (ipaddress.ip_address("192.0.2.1"), "192.0.2.1"),
        ("", None),
        (None, None),
        ("192.0.2.1/24", None),
    ],
)
def test_an_address_is_text_in_its_usual_form(loader, given, expected):
    assert loader.node(stored(host_ip=given), CELL, {}).host_ip == expected


def test_equal_texts_are_one_value(loader):
    texts = {
        "stats": '{"a": "1"}',
        "cpu_info": "{}",
        "supported_instances": '[["x86_64", "kvm", "hvm"]]',
        "pci_stats": "[]",
    }
    first, second = (loader.node(stored(uuid=uuid, **texts), CELL, {}) for uuid in ("u1", "u2"))
    assert all(getattr(first, name) is getattr(second, name) for name in (*texts, "metrics"))
    assert loader.node(stored(), CELL, {}) == loader.node(stored(), CELL, {})


def test_a_metric_that_cannot_be_used_is_reported_once_whatever_its_timestamp(loader, caplog):
    for minute in range(3):
        text = f'[{{"name": "odd", "value": {minute}, "timestamp": "2026-01-02T03:0{minute}:00"}}]'
        loader.node(stored(metrics=text), CELL, {})
    assert len(caplog.records) == 1


def test_an_unreadable_value_is_reported_again_after_a_day(conf, clock, caplog):
    loader = RowLoader(conf, clock=clock)
    for hours, reports in ((0, 1), (23, 1), (2, 2)):
        clock.now += hours * 3600
        loader.node(stored(stats="{"), CELL, {})
        assert len(caplog.records) == reports, hours
    assert (
        caplog.messages[-1]
        == "Ignoring a broken value of compute node node1: stats: not JSON (and 1 more like this)"
    )
