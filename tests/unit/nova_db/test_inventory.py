from datetime import datetime
import logging
import math
from types import SimpleNamespace

import numpy as np
import pytest
import sqlalchemy as sa

from scheduler.conf.partitions import all_partitions
from scheduler.errors import ConfigError, HostsUnknown
from scheduler.hosts.pending import AMOUNTS, PendingPlacements
from scheduler.hosts.view import HostView
from scheduler.nova_db.inventory import HostInventory
from scheduler.nova_db.partition_hosts import hosts_without_partition
from scheduler.nova_db.reported_placements import ReportedPlacements
from scheduler.nova_db.schema import (
    aggregate_hosts,
    aggregates,
    cell_mappings,
    compute_nodes,
    host_mappings,
    instance_group_member,
    instance_groups,
    instance_mappings,
    services,
)
from tests.support.clock import Clock
from tests.support.options import add_partition
from tests.support.waiting import eventually


@pytest.fixture
def inventory(nova):
    nova.conf.set_override("host_state_max_age", 1000.0, "berth")
    inventory = HostInventory(nova.conf)
    yield inventory
    inventory.stop()


def look_up(inventory, host=None, node=None, cell_uuid=None):
    found = inventory.find_nodes(SimpleNamespace(host=host, node=node, cell_uuid=cell_uuid))
    return [(place.host, place.node) for place in found]


@pytest.mark.parametrize(
    ("option", "value", "group", "words"),
    [
        ("servicegroup_driver", "mc", None, "servicegroup_driver"),
        ("connection", "odd://h/d", "database", r"\[database\]/connection"),
    ],
)
def test_it_refuses_options_that_cannot_work(nova, option, value, group, words):
    nova.conf.set_override(option, value, group)
    with pytest.raises(ConfigError, match=words):
        HostInventory(nova.conf)


def test_it_starts_without_any_database(nova, inventory, caplog):
    for group in ("database", "api_database"):
        nova.conf.set_override("connection", "sqlite:////no/such/directory/x.db", group)
    with caplog.at_level(logging.ERROR):
        inventory.start()
    assert len(inventory.snapshot()) == 0
    assert "Cannot read" in caplog.text


def test_it_is_ready_once_the_api_database_was_read(nova, inventory, caplog):
    nova.add_host("h1")
    aggregate = nova.add_aggregate("fast", ["h1"])
    url = nova.conf.api_database.connection
    nova.conf.set_override("connection", "sqlite:////no/such/directory/x.db", "api_database")
    inventory.start()
    assert not inventory.wait_until_ready(0)
    assert not inventory.wait_until_ready(0.01)
    nova.conf.set_override("connection", url, "api_database")
    inventory.engines.dispose()
    with caplog.at_level(logging.INFO):
        assert inventory.wait_until_ready(60)
    assert list(inventory.aggregates().by_id) == [aggregate]
    assert "Loaded cells: 1, compute nodes: 1" in caplog.text
    assert inventory.wait_until_ready(0)


@pytest.mark.parametrize("mentioned", [True, False])
def test_computes_that_are_too_old_are_reported_at_start_unless_an_option_says_no(
    nova, inventory, caplog, mentioned
):
    nova.conf.set_override("disable_compute_service_check_for_ffu", not mentioned, "workarounds")
    nova.add_service("cmp1", version=65)
    inventory.start()
    assert inventory.wait_until_ready(0)
    assert ("service version 65" in caplog.text) is mentioned


def test_finding_nodes(nova, inventory):
    nova.add_host("cmp1")
    nova.add_service("ironic")
    nova.map_host("ironic")
    for node in ("n1", "n2"):
        nova.add_node("ironic", hypervisor_hostname=node)
    inventory.start()
    assert look_up(inventory, host="cmp1") == [("cmp1", "cmp1")]
    assert look_up(inventory, host="ironic") == [("ironic", "n1"), ("ironic", "n2")]
    assert look_up(inventory, host="ironic", node="n2") == [("ironic", "n2")]
    assert look_up(inventory, node="n1") == [("ironic", "n1")]
    assert look_up(inventory, host="cmp1", node="n1") == []
    assert look_up(inventory, host="unknown") == []


def test_the_mapping_selects_the_cell(nova, inventory):
    other = nova.add_cell("cell2", disabled=True)
    nova.add_host("cmp1", cell=other)
    inventory.start()
    assert look_up(inventory, host="cmp1") == [("cmp1", "cmp1")]
    assert look_up(inventory, node="cmp1") == []
    assert look_up(inventory, node="cmp1", cell_uuid=other) == [("cmp1", "cmp1")]
    assert look_up(inventory, host="cmp1", cell_uuid=nova.cell1) == []


def test_a_host_that_has_gone_to_another_cell(nova, inventory):
    nova.add_host("cmp1")
    inventory.start()
    assert look_up(inventory, host="cmp1") == [("cmp1", "cmp1")]
    other = nova.add_cell("cell2")
    nova.add_host("cmp1", cell=other, mapped=False, hypervisor_hostname="there")
    for table in (compute_nodes, services):
        nova.update(table, table.c.host == "cmp1", deleted=1)
    with nova.engines.api().begin() as connection:
        connection.execute(sa.delete(host_mappings))
    nova.map_host("cmp1", other)
    inventory.cells.load()
    inventory.snapshot(0)
    assert look_up(inventory, host="cmp1") == [("cmp1", "there")]


def test_without_a_mapping_the_first_enabled_cell_that_has_it(nova, inventory):
    other = nova.add_cell("cell2")
    nova.add_host("cmp1", cell=other, mapped=False, hypervisor_hostname="second")
    nova.add_host("cmp1", mapped=False, hypervisor_hostname="first")
    nova.add_host("cmp2", cell=other, mapped=False)
    inventory.start()
    assert look_up(inventory, host="cmp1") == [("cmp1", "first")]
    assert look_up(inventory, host="cmp2") == [("cmp2", "cmp2")]


def test_a_node_that_has_just_been_made(nova, inventory):
    inventory.start()
    nova.add_host("cmp1")
    assert look_up(inventory, host="cmp1") == [("cmp1", "cmp1")]


def test_a_cell_that_has_just_been_made(nova, inventory):
    inventory.start()
    other = nova.add_cell("cell2")
    uuid = nova.add_host("cmp1", cell=other)
    table = inventory.snapshot(cell_uuid=other)
    assert list(table.find([uuid], other)) == [0]
    assert inventory.snapshot(cell_uuid=other) is inventory.snapshot()


def test_mapped(nova, inventory):
    nova.add_host("cmp1")
    nova.add_host("cmp2", mapped=False)
    inventory.start()
    assert eventually(lambda: not inventory.mapped("cmp2"))
    assert inventory.mapped("cmp1")


def test_looking_at_everything_anew(nova, inventory):
    nova.add_host("cmp1")
    inventory.start()
    assert inventory.mapped("cmp1")
    nova.add_cell("cell2")
    with nova.engines.api().begin() as connection:
        connection.execute(sa.delete(host_mappings))
        connection.execute(
            sa.update(cell_mappings).where(cell_mappings.c.uuid == nova.cell1).values(disabled=True)
        )
    assert inventory.mapped("cmp1")
    inventory.reset()
    assert eventually(lambda: not inventory.mapped("cmp1"))
    assert len(inventory.cells.all) == 2
    assert inventory.snapshot(0).disabled_cells == {nova.cell1}


def test_aggregates_that_casts_are_about(nova, inventory):
    nova.add_host("cmp1")
    inventory.start()
    nova.add_aggregate("a", ["cmp1"])
    inventory.api.begin_reading()
    assert eventually(lambda: len(inventory.snapshot().coded["aggregates"][0]) == 1)
    assert [aggregate.name for aggregate in inventory.aggregates()] == ["a"]


def test_homes_are_where_instances_are_and_where_they_are_about_to_be(nova, inventory):
    nova.add_host("cmp1")
    node = nova.add_host("cmp2")
    here = nova.add_instance("cmp1")
    inventory.start()
    table = inventory.snapshot()
    inventory.pending.add("coming", table, table.row_of_uuid[node], np.zeros(len(AMOUNTS), np.int64))
    assert inventory.hosts_of_instances([here]) == ({"cmp1"}, True)
    assert inventory.hosts_of_instances([here, "coming", "nowhere"]) == ({"cmp1", "cmp2"}, True)


@pytest.fixture
def partition(nova):
    """Serve a partition of what the options say; its inventory."""
    made = []

    def make(**values):
        add_partition(nova.conf, "p", **values)
        nova.conf.set_override("partition", "p", "berth")
        nova.conf.set_override("host_state_max_age", 0.0, "berth")
        made.append(HostInventory(nova.conf))
        made[0].start()
        return made[0]

    yield make
    for inventory in made:
        inventory.stop()


def hosts_in(inventory):
    return sorted(row.host for row in inventory.snapshot(0).rows)


@pytest.mark.parametrize(
    ("cells", "names", "hosts"),
    [
        ([], ["a", "b"], ["cmp0", "cmp1", "cmp2"]),
        (["cell2"], [], ["cmp2", "cmp4"]),
        (["cell2"], ["b"], ["cmp2"]),
        ([], ["absent"], []),
    ],
    ids=["aggregates", "a cell", "both", "no such aggregate"],
)
def test_a_partition_has_the_hosts_that_are_in_its_cells_and_aggregates(
    nova, partition, caplog, cells, names, hosts
):
    other = nova.add_cell("cell2")
    for number in range(5):
        nova.add_host(f"cmp{number}", cell=other if number in (2, 4) else nova.cell1)
    for name, members in {"a": ["cmp0", "cmp1"], "b": ["cmp1", "cmp2"], "c": ["cmp3"]}.items():
        nova.add_aggregate(name, members)
    uuids = {row.name: row.uuid for row in nova.rows(aggregates, api=True)}
    inventory = partition(cells=cells, aggregates=[uuids["b"] if name == "b" else name for name in names])
    assert hosts_in(inventory) == hosts
    assert inventory.partition.name == "p"
    assert inventory.partition.aggregates() == (
        {uuids[name] for name in names if name in uuids} if names else None
    )
    assert ("Aggregate absent of partition p does not exist" in caplog.text) is (names == ["absent"])


def test_a_partition_by_cells_reads_no_other_cell(nova, partition):
    nova.add_cell("away", reachable=False)
    inventory = partition(cells=[nova.cell1])
    assert [reading.cell.uuid for reading in inventory.reader.cell_readings()] == [nova.cell1]


def test_a_host_comes_to_a_partition_with_the_cast_about_its_aggregate(nova, partition):
    for number in range(2):
        nova.add_host(f"cmp{number}")
    number = nova.add_aggregate("a", ["cmp0"])
    inventory = partition(aggregates=["a"])
    assert hosts_in(inventory) == ["cmp0"]
    nova.insert_api(aggregate_hosts, host="cmp1", aggregate_id=number)
    inventory.api.begin_reading()
    assert eventually(lambda: hosts_in(inventory) == ["cmp0", "cmp1"])


def test_the_nodes_of_ignored_hosts_are_found_in_other_partitions_too(nova, partition):
    other = nova.add_cell("cell2")
    here = nova.add_host("cmp1")
    there = nova.add_host("CMP2", cell=other)
    nova.add_host("cmp3")
    inventory = partition(cells=["cell1"])
    table = inventory.snapshot(0)
    assert inventory.nodes_of_hosts(table, ["cmp1", "cmp2"]) == {here, there}
    assert inventory.nodes_of_hosts(table, []) == frozenset()


def test_hosts_of_other_partitions_are_read_when_an_instance_holds_them(nova, partition):
    other = nova.add_cell("cell2")
    nova.add_cell("away", reachable=False)
    nova.add_host("cmp1")
    nova.add_host("cmp3", cell=other)
    there = nova.add_host("cmp2", cell=other, hypervisor_hostname="node2", free_ram_mb=77)
    nova.update(services, services.c.host == "cmp2", cell=other, forced_down=True)
    inventory = partition(cells=["cell1"])
    table = inventory.outside([there, "no compute node"])
    assert [(row.host, row.nodename, row.cell_uuid, row.free_ram_mb) for row in table.rows] == [
        ("cmp2", "node2", other, 77)
    ]
    assert [service.forced_down for service in table.services] == [True]
    assert hosts_in(inventory) == ["cmp1"]


def test_without_partitions_there_are_no_hosts_outside(nova, inventory):
    nova.add_cell("away", reachable=False)
    inventory.start()
    assert len(inventory.outside(["some provider"])) == 0


def test_members_of_a_group(nova, inventory, caplog):
    groups = [nova.insert_api(instance_groups, uuid=f"g{number}") for number in (1, 2)]
    for number, member in enumerate(["a", "b", "c"]):
        nova.insert_api(instance_group_member, instance_uuid=member, group_id=groups[number % 2])
    assert sorted(inventory.members_of("g1")) == ["a", "c"]
    assert inventory.members_of("unknown") == []
    nova.conf.set_override("connection", "sqlite:////no/such/directory/x.db", "api_database")
    inventory.reset()
    assert inventory.members_of("g1") == []
    assert "Cannot read the members of server group g1" in caplog.text


def expect(inventory, instance, node):
    """Let an instance be expected on a node, as a request does that chose it."""
    table = inventory.snapshot()
    inventory.pending.add(instance, table, table.row_of_uuid[node], np.ones(len(AMOUNTS), np.int64))


@pytest.mark.parametrize(
    ("row_changed", "where", "pending"),
    [
        (False, None, True),
        (False, "cmp1", True),
        (True, None, True),
        (True, "cmp1", False),
        (True, "cmp2", False),
    ],
    ids=[
        "nothing",
        "the compute has not counted it yet",
        "the row changed for another reason",
        "reported",
        "it went to another host",
    ],
)
def test_a_placement_ends_when_the_row_has_changed_and_the_instance_is_on_a_host(
    nova, inventory, row_changed, where, pending
):
    node = nova.add_host("cmp1")
    inventory.start()
    expect(inventory, "i1", node)
    if where:
        nova.add_instance(where, uuid="i1")
    if row_changed:
        nova.update(compute_nodes, compute_nodes.c.uuid == node, updated_at=datetime(2031, 1, 1))
    inventory.snapshot(0)
    assert (inventory.pending.node_of("i1") is not None) == pending


def test_instances_are_not_looked_up_while_no_row_of_a_pending_placement_has_changed(nova, inventory):
    node = nova.add_host("cmp1")
    asked = []
    inventory.instances.locate = lambda uuids, cells: asked.extend(uuids) or {}
    inventory.start()
    expect(inventory, "i1", node)
    for _ in range(2):
        inventory.snapshot(0)
    assert asked == []


def test_a_named_host_without_a_service_is_found_as_nova_finds_it(nova, inventory):
    """Placement is asked for it, and the answer is that no host is left: it is no error of the request."""
    nova.add_host("cmp1")
    nova.update(services, services.c.host == "cmp1", deleted=1)
    inventory.start()
    assert look_up(inventory, host="cmp1") == [("cmp1", "cmp1")]
    assert len(inventory.snapshot()) == 0


def counted(inventory, table):
    """The instances on the first host of a table, as a request that has this table sees them now."""
    hosts = HostView.of(table, np.arange(len(table)), pending=inventory.pending)
    return int(hosts.numbers("num_instances")[0])


def test_an_instance_is_counted_once_while_its_report_is_read(nova, inventory):
    """Requests with the table before the report and with the one after it: at any time it is one instance."""
    node = nova.add_host("cmp1")
    inventory.start()
    before = inventory.snapshot()
    expect(inventory, "i1", node)
    assert counted(inventory, before) == 1
    locate, meanwhile = inventory.instances.locate, []

    def while_it_is_located(*args):
        meanwhile.extend(counted(inventory, table) for table in (before, inventory.snapshot(math.inf)))
        return locate(*args)

    inventory.instances.locate = while_it_is_located
    nova.add_instance("cmp1", uuid="i1")
    reported = {"updated_at": datetime(2031, 1, 1), "stats": '{"num_instances": "1"}'}
    nova.update(compute_nodes, compute_nodes.c.uuid == node, **reported)
    after = inventory.snapshot(0)
    assert after.numbers["num_instances"].tolist() == [1]
    assert meanwhile == [1, 1]
    assert [counted(inventory, table) for table in (before, after)] == [1, 1]
    assert inventory.pending.node_of("i1") is None


def test_only_the_cells_of_reporting_computes_are_asked_for_their_instances(nova, inventory):
    """A cell that hangs keeps no other one from being used."""
    node = nova.add_host("cmp1")
    nova.add_host("cmp2", cell=nova.add_cell("cell2"))
    inventory.start()
    expect(inventory, "i1", node)
    locate, asked = inventory.instances.locate, []
    inventory.instances.locate = lambda uuids, cells: asked.append(cells) or locate(uuids, cells)
    nova.add_instance("cmp1", uuid="i1")
    nova.update(compute_nodes, compute_nodes.c.uuid == node, updated_at=datetime(2031, 1, 1))
    inventory.snapshot(0)
    assert asked == [{nova.cell1}]
    assert inventory.pending.node_of("i1") is None


def test_only_the_reported_placement_of_a_node_ends(nova, inventory):
    node = nova.add_host("cmp1")
    inventory.start()
    for instance in ("arrived", "coming"):
        expect(inventory, instance, node)
    nova.add_instance("cmp1", uuid="arrived")
    nova.update(compute_nodes, compute_nodes.c.uuid == node, updated_at=datetime(2031, 1, 1))
    inventory.snapshot(0)
    assert [inventory.pending.node_of(instance) for instance in ("arrived", "coming")] == [None, node]


def with_clock(inventory):
    """Return the clock of what is pending from now on, and what looks for those that were deleted."""
    clock = Clock()
    inventory.pending = PendingPlacements(clock)
    return clock, ReportedPlacements(inventory.pending, inventory.engines, inventory.instances)


@pytest.mark.parametrize("seconds", [9.0, 11.0], ids=["new", "old"])
def test_a_build_that_was_deleted_before_its_compute_saw_it_counts_for_some_seconds(nova, inventory, seconds):
    """Neither a compute nor a conductor tells of it."""
    clock, reported = with_clock(inventory)
    node = nova.add_host("cmp1")
    inventory.start()
    for instance in ("building", "deleted", "deleted and gone"):
        expect(inventory, instance, node)
    nova.insert_api(instance_mappings, instance_uuid="building", project_id="p")
    nova.insert_api(instance_mappings, instance_uuid="deleted", project_id="p", queued_for_delete=True)
    clock.now += seconds
    assert reported.settle_overdue() == 10.0
    left = [name for name in ("building", "deleted", "deleted and gone") if inventory.pending.node_of(name)]
    assert left == (["building"] if seconds > 10 else ["building", "deleted", "deleted and gone"])
    table = inventory.snapshot()
    (row,) = inventory.pending.overlay(table, np.array([table.row_of_uuid[node]])).T
    assert row[AMOUNTS.index("num_io_ops")] == len(left)


@pytest.mark.parametrize(
    ("where", "seconds", "pending"),
    [("cmp1", 9.0, True), ("cmp1", 11.0, False), ("cmp2", 11.0, True), (None, 11.0, True)],
    ids=["not overdue", "on its host", "not moved to it yet", "on no host"],
)
def test_a_compute_may_report_twice_with_one_stamp(nova, inventory, where, seconds, pending):
    """In MySQL stamps are seconds: the row that counts the instance looks as the one before."""
    clock, reported = with_clock(inventory)
    node = nova.add_host("cmp1")
    nova.add_host("cmp2")
    inventory.start()
    expect(inventory, "i1", node)
    nova.insert_api(instance_mappings, instance_uuid="i1", project_id="p")
    if where:
        nova.add_instance(where, uuid="i1")
    reported.settle(inventory.snapshot())
    assert inventory.pending.node_of("i1") == node
    clock.now += seconds
    reported.settle_overdue()
    assert (inventory.pending.node_of("i1") is not None) == pending


@pytest.mark.parametrize("readable", [False, True], ids=["away", "not nova's"])
def test_a_build_is_expected_while_the_database_does_not_say_that_it_was_deleted(nova, inventory, readable):
    clock, reported = with_clock(inventory)
    node = nova.add_host("cmp1")
    inventory.start()
    expect(inventory, "building", node)
    if not readable:
        nova.conf.set_override("connection", "sqlite:////no/such/directory/x.db", "api_database")
        inventory.reset()
    clock.now += 60
    reported.settle_overdue()
    assert inventory.pending.node_of("building") == node


def test_a_named_host_in_a_cell_that_cannot_be_read_is_not_said_to_be_missing(nova, inventory):
    nova.add_host("cmp1")
    other = nova.add_cell("cell2", reachable=False)
    inventory.start()
    assert look_up(inventory, host="cmp1") == [("cmp1", "cmp1")]
    with pytest.raises(HostsUnknown, match=rf"do not answer: cell2 \({other}\)"):
        look_up(inventory, host="cmp2")
    assert look_up(inventory, host="cmp2", cell_uuid=nova.cell1) == []


def test_a_table_without_unread_cells_needs_no_recovery(nova, inventory):
    nova.add_host("cmp1")
    inventory.start()
    assert not inventory.recover(inventory.snapshot())


def test_hosts_that_belong_to_no_partition(nova, partition):
    other = nova.add_cell("cell2")
    for host, cell in (("cmp1", nova.cell1), ("cmp2", nova.cell1), ("cmp3", other), ("cmp4", other)):
        nova.add_host(host, cell=cell)
    nova.add_aggregate("a", ["cmp1", "cmp3"])
    add_partition(nova.conf, "both", cells=["cell2"], aggregates=["a"])
    hosts = partition(cells=["cell1"])
    found = hosts_without_partition(all_partitions(nova.conf), hosts.engines, hosts.cells, hosts.aggregates)
    assert found == ["cmp4"]
