"""What is said to databases in SQL, on each kind of database."""

from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from scheduler.errors import ConfigError
from scheduler.nova_db.api_reader import ApiReader
from scheduler.nova_db.cells import Cell, Cells
from scheduler.nova_db.change_tracking import ALL_NODES_INTERVAL, CellTracker
from scheduler.nova_db.host_mappings import HostMappings, members_of
from scheduler.nova_db.instances import CellInstances
from scheduler.nova_db.inventory import HostInventory
from scheduler.nova_db.row_loader import RowLoader
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import (
    compute_nodes,
    host_mappings,
    instance_group_member,
    instance_groups,
    instances,
    services,
    utcnow,
)
from scheduler.nova_service.first_scheduler import FirstScheduler
from scheduler.nova_service.service_record import OwnService
from tests.support.options import make_conf


@pytest.fixture
def cells(nova):
    cells = Cells(nova.engines, nova.conf)
    cells.load()
    return cells


@pytest.fixture
def calls():
    return CellCalls(lambda: 30.0)


@pytest.fixture
def tracker(nova, clock):
    return CellTracker(Cell(1, nova.cell1, "cell1", "", True), RowLoader(nova.conf), clock)


def read(nova, tracker):
    tracker.update(nova.cells[nova.cell1])
    return {row.nodename: row for row in tracker.rows.nodes.values()}


def test_first_reading(nova, tracker):
    uuid = nova.add_host(
        "cmp1", service={"disabled": True, "disabled_reason": "hot\x1e\x1f\nfan"}, host_ip="2001:db8::1"
    )
    row = read(nova, tracker)["cmp1"]
    assert (row.uuid, row.free_ram_mb, row.host_ip) == (uuid, 16384, "2001:db8::1")
    service = tracker.rows.services[nova.cell1, "cmp1"]
    stored = nova.rows(services)[0]
    assert (service.id, service.uuid, service.disabled) == (stored.id, stored.uuid, True)
    assert (service.last_seen_up, service.created_at) == (stored.last_seen_up, stored.created_at)
    assert (service.forced_down, service.version, service.updated_at) == (False, 74, None)
    assert service.disabled_reason == "hot\x1e\x1f\nfan"


def test_rows_stay_the_same_mapping_if_nothing_changed(nova, tracker, clock):
    nova.add_host("cmp1")
    read(nova, tracker)
    before = tracker.rows
    clock.now += 1
    read(nova, tracker)
    assert tracker.rows.nodes is before.nodes
    assert tracker.rows.services is before.services
    assert tracker.rows.read_at > before.read_at


def test_a_changed_row_is_read_and_others_stay_themselves(nova, tracker):
    nova.add_host("cmp1")
    nova.add_host("cmp2")
    before = read(nova, tracker)
    nova.update(compute_nodes, compute_nodes.c.host == "cmp2", free_ram_mb=1, stats='{"num_instances": "4"}')
    after = read(nova, tracker)
    assert after["cmp1"] is before["cmp1"]
    assert (after["cmp2"].free_ram_mb, after["cmp2"].num_instances) == (1, 4)


def test_deleted_and_come_back(nova, tracker):
    nova.add_host("cmp1")
    nova.add_host("cmp2")
    read(nova, tracker)
    where = compute_nodes.c.host == "cmp1"
    nova.update(compute_nodes, where, deleted=compute_nodes.c.id)
    assert list(read(nova, tracker)) == ["cmp2"]
    nova.update(compute_nodes, where, deleted=0, deleted_at=None)
    assert sorted(read(nova, tracker)) == ["cmp1", "cmp2"]


def test_null_deleted_is_deleted(nova, tracker):
    nova.add_host("cmp1", deleted=None)
    assert read(nova, tracker) == {}


def test_a_heartbeat(nova, tracker):
    nova.add_host("cmp1")
    nodes = read(nova, tracker)
    seen = datetime(2026, 1, 2, 3, 4, 5)
    nova.update(services, services.c.host == "cmp1", last_seen_up=seen, report_count=7, forced_down=True)
    assert read(nova, tracker)["cmp1"] is nodes["cmp1"]
    service = tracker.rows.services[nova.cell1, "cmp1"]
    assert (service.last_seen_up, service.report_count, service.forced_down) == (seen, 7, True)


def test_null_flags_of_a_service_are_false(nova, tracker):
    nova.add_host("cmp1", service={"disabled": None, "forced_down": None})
    read(nova, tracker)
    service = tracker.rows.services[nova.cell1, "cmp1"]
    assert (service.disabled, service.forced_down) == (False, False)


def test_a_second_write_in_the_same_second_is_read(nova, tracker):
    nova.add_host("cmp1")
    read(nova, tracker)
    stamp = utcnow().replace(microsecond=0)
    for workload in (1, 2):
        stats = f'{{"io_workload": "{workload}"}}'
        nova.update(compute_nodes, compute_nodes.c.host == "cmp1", updated_at=stamp, stats=stats)
        assert read(nova, tracker)["cmp1"].num_io_ops == workload


def test_a_change_without_a_stamp_is_read_when_all_rows_are_compared(nova, tracker, clock):
    nova.add_host("cmp1")
    read(nova, tracker)
    nova.update(compute_nodes, compute_nodes.c.host == "cmp1", stamped=False, metrics="[1]", vcpus=7)
    clock.now += ALL_NODES_INTERVAL
    assert read(nova, tracker)["cmp1"].vcpus_total == 7


def test_the_sum_of_the_hashes_is_that_of_the_database(nova, tracker):
    for name in ("cmp1", "cmp2", "cmp3"):
        nova.add_host(name)
    read(nova, tracker)
    nova.update(compute_nodes, compute_nodes.c.host == "cmp2", free_ram_mb=1)
    nova.update(compute_nodes, compute_nodes.c.host == "cmp3", deleted=compute_nodes.c.id)
    read(nova, tracker)
    with nova.cells[nova.cell1].connect() as connection:
        assert tracker._nodes._is_complete(connection, None)
    nova.update(compute_nodes, compute_nodes.c.host == "cmp1", stamped=False, vcpus=7)
    with nova.cells[nova.cell1].connect() as connection:
        assert not tracker._nodes._is_complete(connection, None)


def test_many_rows(nova, tracker):
    for number in range(150):
        nova.add_host(f"cmp{number:03}", mapped=False)
    before = read(nova, tracker)
    assert len(before) == len(tracker.rows.services) == 150
    written = ["cmp003", "cmp064", "cmp140"]
    nova.update(compute_nodes, compute_nodes.c.host.in_(written), vcpus_used=5)
    after = read(nova, tracker)
    assert [name for name in after if after[name] is not before[name]] == written
    assert list(after) == list(before)


def test_cells_and_mappings(nova, cells):
    nova.add_cell0()
    other = nova.add_cell("cell2", disabled=True)
    null = nova.add_cell("cell3", disabled=None)
    cells.load()
    assert [cell.uuid for cell in cells.all] == [nova.cell1, other, null]
    assert cells.disabled == {other}
    nova.map_host("cmp1", other)
    mapped = HostMappings(nova.engines)
    assert (mapped.cell_of("cmp1"), mapped.cell_of("cmp2")) == (other, None)
    mapped.follow(["cmp1", "cmp2"])
    mapped.load()
    assert ("cmp1" in mapped, "cmp2" in mapped) == (True, False)
    nova.map_host("cmp2", other)
    mapped.load()
    assert "cmp2" in mapped


def test_aggregates(nova, cells):
    number = nova.add_aggregate("fast", ["cmp1", "cmp2"], {"ssd": "true", "availability_zone": "a"})
    nova.add_aggregate("empty")
    store = ApiReader(nova.engines, cells, HostMappings(nova.engines))
    assert store.read()
    fast, empty = store.aggregates
    assert (fast.id, fast.hosts, fast.availability_zone) == (number, {"cmp1", "cmp2"}, "a")
    assert (empty.name, empty.hosts, empty.metadata) == ("empty", set(), {})
    known = store.aggregates
    assert store.read()
    assert store.aggregates is known
    nova.add_aggregate("third", ["cmp3"])
    assert store.read()
    assert [one.name for one in store.aggregates.of_host("cmp3")] == ["third"]


def test_where_instances_are(nova, cells, calls):
    other = nova.add_cell("cell2")
    cells.load()
    source = CellInstances(cells, calls)
    here = nova.add_instance("cmp1", vm_state="soft-delete", hidden=True)
    gone = nova.add_instance("cmp1", deleted=5)
    nowhere = nova.add_instance(None)
    there = nova.add_instance("cmp9", cell=other)
    nova.add_instance("cmp2", uuid=there, hidden=True)
    found = source.locate([here, gone, nowhere, there, "unknown"])
    assert found.keys() == {here, there}
    assert found[here] == [(nova.cell1, "cmp1")]
    assert set(found[there]) == {(nova.cell1, "cmp2"), (other, "cmp9")}
    assert list(source.on_host(nova.cell1, "cmp1")) == [here]
    assert source.on_host(nova.cell1, "cmp7") == {}
    assert source.hosts_of_instances([here, gone, nowhere, there]) == ({"cmp9"}, True)


def test_members_of_groups(nova):
    ours, others = (nova.insert_api(instance_groups, uuid=name) for name in ("ours", "others"))
    for member, group in (("a", ours), ("b", others), ("c", ours)):
        nova.insert_api(instance_group_member, instance_uuid=member, group_id=group)
    assert sorted(members_of(nova.engines, "ours")) == ["a", "c"]


def test_images_of_instances(nova, cells, calls):
    source = CellInstances(cells, calls)
    linux = nova.add_instance("cmp1", image={"os_distro": "linux", "hw_machine_type": "pc"})
    nova.add_instance("cmp2", image={"os_distro": "windows"})
    plain = nova.add_instance("cmp2")
    places = [(nova.cell1, f"cmp{number}") for number in (1, 2, 3)]
    found = source.image_properties(places)
    assert found[places[0]] == [{"os_distro": "linux", "hw_machine_type": "pc"}]
    assert sorted(found[places[1]], key=len) == [{}, {"os_distro": "windows"}]
    assert places[2] not in found
    nova.update(instances, instances.c.uuid == plain, deleted=1)
    assert source.image_properties(places)[places[1]] == [{"os_distro": "windows"}]
    assert linux in source.on_host(nova.cell1, "cmp1")


def test_own_service(nova):
    nova.add_service("conductor", binary="nova-conductor", version=70)
    own = OwnService(nova.conf, nova.engines)
    own.beat()
    row = nova.rows(services)[-1]
    assert (row.host, row.binary, row.topic, row.version) == ("controller", "nova-scheduler", "scheduler", 70)
    assert (row.report_count, row.deleted, row.disabled, row.forced_down) == (0, 0, False, False)
    assert row.last_seen_up is None
    own.beat()
    OwnService(nova.conf, nova.engines).beat()
    row = nova.rows(services)[-1]
    assert row.report_count == 1
    assert abs(row.last_seen_up - utcnow()) < timedelta(seconds=30)
    nova.update(services, services.c.id == row.id, deleted=row.id)
    own.beat()
    own.beat()
    assert nova.rows(services)[-1].report_count == 1


def test_discovery(nova):
    nova.add_cell0()
    other = nova.add_cell("cell2", disabled=True)
    nova.add_node("cmp1", mapped=0)
    nova.add_node("cmp2", mapped=None)
    nova.add_node("cmp3", mapped=0, cell=other)
    nova.add_node("cmp4", mapped=0)
    nova.map_host("cmp4")
    nova.add_service("controller", binary="nova-scheduler")
    FirstScheduler(nova.conf, nova.engines, OwnService(nova.conf, nova.engines).leads).discover_hosts()
    assert sorted(row.host for row in nova.rows(host_mappings, api=True)) == ["cmp1", "cmp3", "cmp4"]
    assert {row.host: row.mapped for row in nova.rows(compute_nodes)} == {"cmp1": 1, "cmp2": None, "cmp4": 0}
    assert [row.mapped for row in nova.rows(compute_nodes, cell=other)] == [1]


def test_minimum_version(nova):
    other = nova.add_cell("cell2")
    nova.add_service("cmp1", version=72)
    nova.add_service("cmp2", version=66, forced_down=True)
    nova.add_service("cmp3", version=0)
    nova.add_service("cmp4", version=None)
    nova.add_service("cmp5", version=60, deleted=9)
    nova.add_service("cmp6", version=71, forced_down=None, cell=other)
    nova.add_service("sched", version=50, binary="nova-scheduler")
    inventory = HostInventory(nova.conf)
    inventory.start()
    try:
        inventory.snapshot()
        assert inventory.minimum_compute_version() == 71
    finally:
        inventory.stop()


def test_an_inventory(nova):
    uuid = nova.add_host("cmp1")
    nova.add_aggregate("zone", ["cmp1"], {"availability_zone": "a"})
    inventory = HostInventory(nova.conf)
    inventory.start()
    try:
        table = inventory.snapshot()
        assert [row.uuid for row in table.rows] == [uuid]
        assert table.coded["aggregates"][0].availability_zone("nova") == "a"
        assert inventory.minimum_compute_version() == 74
        new = nova.add_host("cmp2")
        table = inventory.complete(table, [uuid, new, "foreign"])
        assert set(table.row_of_uuid) == {uuid, new}
        assert inventory.find_nodes(SimpleNamespace(host="cmp2", node=None, cell_uuid=None)) == [
            (new, "cmp2", "cmp2")
        ]
        nova.update(compute_nodes, compute_nodes.c.host == "cmp1", free_ram_mb=77)
        assert inventory.snapshot(0).numbers["free_ram_mb"][0] == 77
    finally:
        inventory.stop()


def test_sessions_are_set_up(nova):
    """A hung statement is ended by the driver or the connection watch."""
    engine = nova.cells[nova.cell1]
    assert {"read_timeout", "tcp_user_timeout", "timeout"} & engine.url.query.keys()
    query, expected = ("PRAGMA busy_timeout", 10000) if engine.name == "sqlite" else ("SELECT 1", 1)
    with engine.connect() as connection:
        assert connection.execute(sa.text(query)).scalar() == expected


def test_a_zero_date_costs_no_host(nova, tracker, caplog):
    nova.add_host("cmp1")
    nova.add_host("cmp2")
    engine = nova.cells[nova.cell1]
    if engine.name not in ("mysql", "mariadb"):
        pytest.skip("only MySQL stores such dates")
    with engine.begin() as connection:
        connection.execute(sa.text("SET SESSION sql_mode = ''"))
        zero = "UPDATE {} SET updated_at = '0000-00-00 00:00:00', created_at = '0000-00-00 00:00:00'"
        connection.execute(sa.text(zero.format("compute_nodes") + " WHERE host = 'cmp1'"))
        connection.execute(sa.text(zero.format("services") + " WHERE host = 'cmp1'"))
    rows = read(nova, tracker)
    assert sorted(rows) == ["cmp1", "cmp2"]
    assert (rows["cmp1"].updated, tracker.rows.services[nova.cell1, "cmp1"].created_at) == (None, None)
    assert "compute node cmp1: updated_at is '0000-00-00 00:00:00'" in caplog.text
    nova.update(compute_nodes, compute_nodes.c.host == "cmp1", free_ram_mb=77)
    assert read(nova, tracker)["cmp1"].free_ram_mb == 77


@pytest.mark.parametrize(
    "server",
    [
        pytest.param("mysql_databases", marks=pytest.mark.mariadb),
        pytest.param("postgresql_databases", marks=pytest.mark.postgresql),
    ],
)
def test_a_database_that_refuses_access_ends_the_start_at_once(request, server):
    """It does not get better by itself, as an outage does."""
    url = sa.make_url(request.getfixturevalue(server)("api")).set(username="nobody", password="wrong-one")
    conf = make_conf(api_database__connection=url.render_as_string(hide_password=False))
    with pytest.raises(ConfigError, match=r"\[api_database\]/connection: .*nobody") as caught:
        HostInventory(conf).wait_until_ready(30)
    assert "wrong-one" not in str(caught.value)
