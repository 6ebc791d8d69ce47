from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from scheduler.nova_db.cells import Cell
from scheduler.nova_db.change_tracking import (
    ALIVE_SHARE,
    ALL_NODES_INTERVAL,
    ALL_SERVICES_INTERVAL,
    OVERLAP,
    CellTracker,
    NodeTracker,
    ServiceTracker,
    merged,
)
from scheduler.nova_db.row_loader import RowLoader
from scheduler.nova_db.schema import compute_nodes, services
from tests.support.clock import Clock

DOWN_TIME = 60.0
ALIVE = ALIVE_SHARE * DOWN_TIME
STAMP = datetime(2026, 1, 2, 3, 4, 5, 6)


@pytest.fixture
def connection(nova):
    with nova.cells[nova.cell1].connect() as connection:
        yield connection


@pytest.mark.parametrize(
    ("old", "gone", "fresh", "expected"),
    [
        ({}, [], {1: "a"}, {1: "a"}),
        ({1: "a", 2: "b"}, [1], {}, {2: "b"}),
        ({1: "a", 2: "b"}, [], {1: "c"}, {1: "c", 2: "b"}),
        ({1: "a", 2: "b"}, [], {1: None}, {2: "b"}),
        ({1: "a"}, [2], {3: None}, {1: "a"}),
    ],
)
def test_merged_values_are_in_stable_order(old, gone, fresh, expected):
    result = merged(old, gone, fresh)
    assert list(result.items()) == list(expected.items())


def test_merged_is_the_old_mapping_if_nothing_differs():
    value = ["a"]
    old = {1: value}
    assert merged(old, [], {1: ["a"]}) is old
    assert merged(old, [7], {8: None}) is old


def test_only_live_compute_services_are_tracked(nova, connection):
    nova.add_service("cmp1")
    nova.add_service("cmp1", binary="nova-scheduler")
    nova.add_service("cmp2", deleted=2)
    tracker = ServiceTracker()
    tracker.update(connection)
    assert [(row.host, row.binary, row.topic) for row in tracker.rows.values()] == [
        ("cmp1", "nova-compute", "compute")
    ]


class Services:
    """A tracker of services that are down after a minute, and its clock."""

    def __init__(self, nova):
        self.clock = Clock()
        self._nova = nova
        self.tracker = ServiceTracker(lambda: DOWN_TIME, self.clock, self.now)

    def now(self):
        return STAMP + timedelta(seconds=self.clock.now)

    def add(self, *hosts, **columns):
        for host in hosts:
            self._nova.add_service(host, **({"last_seen_up": self.now(), "created_at": STAMP} | columns))

    def write(self, host, **columns):
        self._nova.update(services, services.c.host == host, **({"updated_at": self.now()} | columns))

    def beat(self, *hosts):
        for host in hosts:
            self.write(host, last_seen_up=self.now())

    def update(self):
        """The rows by host."""
        with self._nova.cells[self._nova.cell1].connect() as connection:
            self.tracker.update(connection)
        return {row.host: row for row in self.tracker.rows.values()}


@pytest.fixture
def computes(nova):
    return Services(nova)


def test_a_version_that_is_a_text_is_unknown(computes):
    computes.add("cmp1", version="x")
    computes.add("cmp2", version=66)
    assert {host: row.version for host, row in computes.update().items()} == {"cmp1": None, "cmp2": 66}


def test_of_services_that_are_alive_no_heartbeat_is_read(computes):
    computes.add("cmp1", "cmp2")
    before = computes.update()
    for _ in range(20):
        computes.clock.now += 10
        computes.beat("cmp1", "cmp2")
        after = computes.update()
        assert [after[host] is before[host] and after[host].alive for host in before] == [True, True]


def test_the_heartbeat_of_a_service_that_is_not_alive_is_read_each_time(computes):
    computes.add("cmp1", "cmp2")
    computes.write("cmp2", disabled=True)
    computes.update()
    for _ in range(5):
        computes.clock.now += 9
        computes.beat("cmp1", "cmp2")
        rows = computes.update()
        assert [rows[host].alive for host in ("cmp1", "cmp2")] == [True, False]
        assert rows["cmp2"].last_seen_up == computes.now()


def test_a_service_that_is_silent_is_not_alive_until_it_is_seen(computes):
    computes.add("cmp1")
    seen = computes.now()
    assert computes.update()["cmp1"].alive
    computes.clock.now += ALIVE + 1
    for _ in range(2):
        row = computes.update()["cmp1"]
        assert (row.alive, row.last_seen_up) == (False, seen)
    computes.beat("cmp1")
    assert computes.update()["cmp1"].alive


@pytest.mark.parametrize(
    "columns",
    [
        {"disabled": True, "disabled_reason": "fan"},
        {"forced_down": True},
        {"last_seen_up": None},
        {"last_seen_up": STAMP + timedelta(days=1)},
    ],
)
@pytest.mark.parametrize("stamped", [True, False])
def test_a_service_that_is_no_longer_alive_is_read_whole_at_once(nova, computes, columns, stamped):
    computes.add("cmp1")
    assert computes.update()["cmp1"].alive
    nova.update(services, services.c.host == "cmp1", stamped=stamped, report_count=9, **columns)
    row = computes.update()["cmp1"]
    assert (row.alive, row.report_count) == (False, 9)
    assert columns.items() <= {name: getattr(row, name) for name in columns}.items()


@pytest.mark.parametrize("set_by", [300, -300])
def test_services_are_judged_by_the_wall_clock_as_it_is_set(computes, set_by):
    computes.add("cmp1")
    computes.update()
    computes.clock.now += set_by
    assert not computes.update()["cmp1"].alive
    computes.beat("cmp1")
    assert computes.update()["cmp1"].alive


def test_services_come_and_go(nova, computes):
    computes.add("cmp1", "cmp2", "cmp3")
    computes.clock.now += 1
    computes.write("cmp3", disabled=True)
    assert sorted(computes.update()) == ["cmp1", "cmp2", "cmp3"]
    for host in ("cmp2", "cmp3"):
        nova.update(services, services.c.host == host, deleted=services.c.id, deleted_at=computes.now())
    computes.add("cmp4", created_at=computes.now())
    computes.clock.now += 1
    assert sorted(computes.update()) == ["cmp1", "cmp4"]


def test_services_that_were_removed_by_hand_go_when_all_are_read(nova, computes):
    computes.add("cmp1", "cmp2")
    computes.update()
    with nova.cells[nova.cell1].begin() as writer:
        writer.execute(sa.delete(services).where(services.c.host == "cmp1"))
    computes.clock.now += ALL_SERVICES_INTERVAL
    computes.beat("cmp2")
    assert sorted(computes.update()) == ["cmp2"]


def test_a_row_that_cannot_be_used_is_not_read_again_until_it_changes(nova, connection):
    nova.add_host("cmp1", free_disk_gb=None)
    loaded = []
    loader = RowLoader(nova.conf)

    def load(row):
        loaded.append(row.id)
        return loader.node(row, "cell", {})

    tracker = NodeTracker()
    for _ in range(2):
        tracker.update(connection, load)
    assert (loaded, tracker.rows) == ([1], {})
    connection.rollback()
    nova.update(compute_nodes, compute_nodes.c.id == 1, free_disk_gb=1)
    tracker.update(connection, load)
    assert [row.host for row in tracker.rows.values()] == ["cmp1"]


class Nodes:
    """A tracker of compute nodes, and its clocks; rows are written by nova with the wall clock's stamp."""

    def __init__(self, nova):
        self.clock = Clock()
        self.slow = self.set_by = timedelta()
        self._nova = nova
        self.tracker = NodeTracker(self.clock, lambda: self.now() + self.set_by)

    def now(self):
        return STAMP + timedelta(seconds=self.clock.now)

    def add(self, *hosts):
        for host in hosts:
            self._nova.add_node(host, created_at=STAMP, updated_at=self.stamp())

    def stamp(self):
        """Whole seconds, as in MySQL."""
        return (self.now() - self.slow).replace(microsecond=0)

    def write(self, host, **columns):
        self._nova.update(compute_nodes, compute_nodes.c.host == host, updated_at=self.stamp(), **columns)

    def read(self):
        """The names of the hosts that were read."""
        return update(self.tracker, self._nova)


@pytest.fixture
def nodes(nova):
    return Nodes(nova)


def test_only_rows_that_were_written_are_read(nodes):
    nodes.add("cmp1", "cmp2", "cmp3")
    assert nodes.read() == ["cmp1", "cmp2", "cmp3"]
    nodes.write("cmp2", free_ram_mb=1)
    assert nodes.read() == ["cmp2"]
    for _ in range(30):
        nodes.clock.now += 10
        assert nodes.read() == []


def test_a_second_write_with_the_same_stamp_is_seen(nodes):
    nodes.add("cmp1")
    nodes.read()
    for workload in ("1", "2", "3"):
        nodes.write("cmp1", stats=f'{{"io_workload": "{workload}"}}')
        assert nodes.read() == ["cmp1"]


@pytest.mark.parametrize(
    ("slow", "at_once"), [(0, True), (OVERLAP.seconds - 1, True), (OVERLAP.seconds + 2, False)]
)
def test_a_change_with_the_stamp_of_a_slow_clock_is_seen(nodes, slow, at_once):
    nodes.add("cmp1")
    nodes.read()
    nodes.clock.now += 100
    nodes.read()
    nodes.slow = timedelta(seconds=slow)
    nodes.clock.now += 0.5
    nodes.write("cmp1", free_ram_mb=1)
    assert nodes.read() == (["cmp1"] if at_once else [])
    nodes.clock.now += ALL_NODES_INTERVAL
    assert nodes.read() == ([] if at_once else ["cmp1"])


def test_changes_are_seen_after_the_wall_clock_was_set_back(nodes):
    nodes.add("cmp1")
    nodes.set_by = timedelta(hours=1)
    nodes.read()
    nodes.set_by = timedelta()
    nodes.clock.now += 1
    nodes.write("cmp1", free_ram_mb=1)
    assert nodes.read() == ["cmp1"]


def test_changes_by_hand_are_seen_when_all_rows_are_compared(nova, nodes):
    nodes.add("cmp1", "cmp2", "cmp3")
    nodes.read()
    nova.update(compute_nodes, compute_nodes.c.host == "cmp1", stamped=False, stats='{"io_workload": "9"}')
    with nova.cells[nova.cell1].begin() as writer:
        writer.execute(sa.delete(compute_nodes).where(compute_nodes.c.host == "cmp2"))
    nodes.clock.now += ALL_NODES_INTERVAL
    assert nodes.read() == ["cmp1"]


@pytest.fixture
def rows_read(monkeypatch):
    """How many rows each reading has returned, of hashes or of services."""
    numbers = []
    for owner, name in ((NodeTracker, "_read_hashes"), (ServiceTracker, "_read")):
        read = getattr(owner, name)

        def counted(*arguments, read=read, **named):
            found = read(*arguments, **named)
            numbers.append(len(found))
            return found

        monkeypatch.setattr(owner, name, staticmethod(counted))
    return numbers


@pytest.mark.parametrize(
    ("wanted", "expected"), [(None, [1]), ({"cmp3", "cmp4"}, [1, 9])], ids=["all", "some"]
)
def test_nodes_that_have_not_changed_are_compared_by_one_sum(nova, rows_read, wanted, expected):
    """Not if some are wanted: the sum is that of all."""
    nodes = Nodes(nova)
    nodes.add(*(f"cmp{number}" for number in range(9)))
    for _ in range(2):
        update(nodes.tracker, nova, wanted)
        nodes.clock.now += ALL_NODES_INTERVAL
    nodes.write("cmp3", free_ram_mb=1)
    rows_read.clear()
    assert update(nodes.tracker, nova, wanted) == ["cmp3"]
    assert rows_read == expected


def test_services_are_read_again_only_if_more_than_heartbeats_has_changed(nova, computes, rows_read):
    hosts = [f"cmp{number}" for number in range(9)]
    computes.add(*hosts)

    def update_all():
        computes.clock.now += ALL_SERVICES_INTERVAL
        computes.beat(*hosts)
        rows_read.clear()
        computes.update()
        return sum(rows_read)

    computes.update()
    assert [update_all() for _ in range(3)] == [0, 0, 0]
    nova.update(services, services.c.host == "cmp1", stamped=False, version=7)
    assert [update_all() for _ in range(2)] == [9, 0]


def update(tracker, nova, hosts=None):
    """Bring a tracker up to date; the names of the hosts whose rows were read. Hosts None: all are wanted."""
    read, loader = [], RowLoader(nova.conf)

    def load(row):
        read.append(row.host)
        return loader.node(row, "cell", {})

    with nova.cells[nova.cell1].connect() as connection:
        tracker.update(connection, load, None if hosts is None else frozenset(hosts))
    return sorted(read)


def hosts_of(tracker):
    return sorted(row.host for row in tracker.rows.values())


def test_only_the_rows_of_wanted_hosts_are_read(nova):
    for number in range(4):
        nova.add_node(f"cmp{number}", updated_at=STAMP)
    tracker = NodeTracker()
    assert update(tracker, nova, ["cmp1", "cmp2", "absent"]) == ["cmp1", "cmp2"]
    nova.update(compute_nodes, compute_nodes.c.host.in_(["cmp0", "cmp2"]), free_ram_mb=1)
    assert update(tracker, nova, ["cmp1", "cmp2", "absent"]) == ["cmp2"]
    assert hosts_of(tracker) == ["cmp1", "cmp2"]


def test_hosts_come_and_go_with_those_that_are_wanted(nova):
    for number in range(3):
        nova.add_node(f"cmp{number}", updated_at=STAMP)
    tracker = NodeTracker()
    update(tracker, nova, ["cmp0", "cmp1"])
    rows = tracker.rows
    assert update(tracker, nova, ["cmp0", "cmp1"]) == []
    assert tracker.rows is rows
    assert update(tracker, nova, ["cmp1", "cmp2"]) == ["cmp2"]
    assert hosts_of(tracker) == ["cmp1", "cmp2"]
    nova.update(compute_nodes, compute_nodes.c.host == "cmp1", deleted=1)
    assert update(tracker, nova, ["cmp0", "cmp1", "cmp2"]) == ["cmp0"]
    assert hosts_of(tracker) == ["cmp0", "cmp2"]


def test_a_node_that_moves_to_another_host_is_wanted_or_not(nova):
    nova.add_node("cmp1", updated_at=STAMP)
    tracker = NodeTracker()
    for host, expected in (("cmp1", ["cmp1"]), ("elsewhere", []), ("cmp1", ["cmp1"])):
        nova.update(compute_nodes, compute_nodes.c.id == 1, host=host)
        update(tracker, nova, ["cmp1"])
        assert hosts_of(tracker) == expected


def test_after_an_error_hosts_that_are_wanted_now_are_read_still(nova, connection):
    nova.add_node("cmp1", updated_at=STAMP)
    tracker = NodeTracker()
    update(tracker, nova, [])
    with pytest.raises(ZeroDivisionError):
        tracker.update(connection, lambda row: 1 / 0, frozenset(["cmp1"]))
    assert update(tracker, nova, ["cmp1"]) == ["cmp1"]


def test_after_an_error_the_same_changes_are_read_again(nova, connection):
    nova.add_host("cmp1")
    tracker, loader = NodeTracker(), RowLoader(nova.conf)
    with pytest.raises(ZeroDivisionError):
        tracker.update(connection, lambda row: 1 / 0)
    tracker.update(connection, lambda row: loader.node(row, "cell", {}))
    assert len(tracker.rows) == 1


def test_the_services_and_nodes_of_a_cell_are_tracked(nova):
    nova.add_host("cmp1")
    tracker = CellTracker(Cell(1, nova.cell1, "cell1", "", True), RowLoader(nova.conf))
    assert tracker.rows.read_at == float("-inf")
    tracker.update(nova.cells[nova.cell1])
    assert list(tracker.rows.services) == [(nova.cell1, "cmp1")]
    nova.update(services, services.c.host == "cmp1", deleted=1)
    tracker.update(nova.cells[nova.cell1])
    assert (list(tracker.rows.services), len(tracker.rows.nodes)) == ([], 1)


class ReentrantLoader(RowLoader):
    """Asks for the same cell again while a row of it is loaded."""

    def node(self, row, cell_uuid, services):
        self.tracker.update(self.engine)
        self.seen = self.tracker.rows
        return super().node(row, cell_uuid, services)


def test_an_update_during_another_one_does_nothing(nova):
    nova.add_host("cmp1")
    loader = ReentrantLoader(nova.conf)
    loader.engine = nova.cells[nova.cell1]
    loader.tracker = CellTracker(Cell(1, nova.cell1, "cell1", "", True), loader)
    loader.tracker.update(loader.engine)
    assert loader.seen.nodes == {}
    assert len(loader.tracker.rows.nodes) == 1


def test_a_row_whose_value_cannot_be_converted_costs_only_its_host(nova, caplog):
    nova.add_host("cmp1")
    nova.add_host("cmp2")
    nova.add_host("cmp3")
    with nova.cells[nova.cell1].begin() as writer:
        writer.execute(sa.text("UPDATE compute_nodes SET updated_at = 'nonsense' WHERE host = 'cmp2'"))
    tracker = CellTracker(Cell(1, nova.cell1, "cell1", "", True), RowLoader(nova.conf))
    for _ in range(2):
        tracker.update(nova.cells[nova.cell1])
        assert sorted(row.host for row in tracker.rows.nodes.values()) == ["cmp1", "cmp3"]
    assert caplog.text.count("Skipped the unreadable compute node with id 2") == 1
