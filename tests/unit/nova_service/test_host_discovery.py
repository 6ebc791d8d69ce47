from datetime import timedelta

import pytest

from scheduler.nova_db.schema import compute_nodes, host_mappings, utcnow
from scheduler.nova_service.first_scheduler import FirstScheduler, interval
from scheduler.nova_service.service_record import OwnService

LONG_AGO = utcnow() - timedelta(hours=1)


@pytest.fixture
def discovery(nova):
    return FirstScheduler(nova.conf, nova.engines, OwnService(nova.conf, nova.engines).leads)


def mapped(nova):
    return sorted(row.host for row in nova.rows(host_mappings, api=True))


@pytest.mark.parametrize(("seconds", "expected"), [(-1, None), (0, 60), (5, 5)])
def test_interval(nova, seconds, expected):
    nova.conf.set_override("discover_hosts_in_cells_interval", seconds, "scheduler")
    assert interval(nova.conf) == expected


@pytest.mark.parametrize(
    ("schedulers", "leads"),
    [
        ({"controller": {}}, True),
        ({}, False),
        ({"controller": {}, "another": {}}, False),
        ({"controller": {}, "zebra": {}}, True),
        ({"controller": {}, "another": {"disabled": True}}, True),
        ({"controller": {}, "another": {"forced_down": True}}, True),
        ({"controller": {}, "another": {"last_seen_up": LONG_AGO}}, True),
        ({"controller": {}, "another": {"deleted": 5}}, True),
        ({"controller": {"disabled": True}}, False),
        ({"controller": {"last_seen_up": None}}, True),
        ({"controller": {}, "another": {"binary": "nova-conductor"}}, True),
    ],
)
def test_the_first_scheduler_leads(nova, discovery, schedulers, leads):
    nova.add_node("cmp1")
    for host, columns in schedulers.items():
        nova.add_service(host, **{"binary": "nova-scheduler", **columns})
    discovery.discover_hosts()
    assert mapped(nova) == (["cmp1"] if leads else [])


@pytest.fixture
def leading(nova, discovery):
    nova.add_service("controller", binary="nova-scheduler")
    return discovery


def test_several_nodes_of_a_host(nova, leading):
    nova.add_node("ironic", hypervisor_hostname="n1")
    nova.add_node("ironic", hypervisor_hostname="n2")
    leading.discover_hosts()
    assert mapped(nova) == ["ironic"]
    assert sorted(row.mapped for row in nova.rows(compute_nodes)) == [0, 1]


def test_nodes_that_are_mapped_or_gone_are_left(nova, leading):
    nova.add_node("cmp1", mapped=1)
    nova.add_node("cmp2", deleted=2)
    leading.discover_hosts()
    assert mapped(nova) == []


def test_a_cell_that_is_away_does_not_keep_the_others(nova, leading, caplog):
    nova.add_cell("away", reachable=False, id=1000)
    other = nova.add_cell("cell2")
    nova.add_node("cmp1", cell=other)
    for _ in range(3):
        leading.discover_hosts()
    assert mapped(nova) == ["cmp1"]
    assert caplog.text.count("Cannot discover the hosts of cell away") == 1


def test_without_the_databases(nova, leading, caplog):
    nova.conf.set_override("connection", "sqlite:////no/such/directory/x.db", "api_database")
    for _ in range(3):
        leading.discover_hosts()
    assert caplog.text.count("Cannot discover") == 1


def test_a_node_whose_compute_has_not_named_its_host_yet_keeps_no_other_from_being_mapped(nova, leading):
    nova.add_node(None, hypervisor_hostname="n1")
    nova.add_node("cmp2")
    leading.discover_hosts()
    assert mapped(nova) == ["cmp2"]
