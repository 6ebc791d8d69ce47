from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from scheduler.nova_db.cells import Cell
from scheduler.nova_db.change_tracking import (
    HEARTBEATS_INTERVAL,
    REREAD_DELAY,
    CellTracker,
    NodeTracker,
    ServiceTracker,
    merged,
)
from scheduler.nova_db.row_loader import RowLoader
from scheduler.nova_db.schema import compute_nodes, services
from tests.support.clock import Clock

# with a fraction of a second: a row with such a stamp is not read again
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


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("2026-01-02 03:04:05", datetime(2026, 1, 2, 3, 4, 5)),
        ("2026-01-02 03:04:05.5", datetime(2026, 1, 2, 3, 4, 5, 500000)),
        ("2026-01-02 03:04:05.123456", datetime(2026, 1, 2, 3, 4, 5, 123456)),
        ("0000-00-00 00:00:00", None),
        (None, None),
    ],
)
def test_stamps_are_read_as_databases_print_them(nova, connection, stored, expected):
    nova.add_service("cmp1")
    with nova.cells[nova.cell1].begin() as writer:
        writer.execute(sa.text("UPDATE services SET last_seen_up = :stored"), {"stored": stored})
    tracker = ServiceTracker()
    tracker.update(connection)
    assert tracker.rows[1].last_seen_up == expected


def test_only_live_compute_services_are_tracked(nova, connection):
    nova.add_service("cmp1")
    nova.add_service("cmp1", binary="nova-scheduler")
    nova.add_service("cmp2", deleted=2)
    tracker = ServiceTracker()
    tracker.update(connection)
    assert [(row.host, row.binary, row.topic) for row in tracker.rows.values()] == [
        ("cmp1", "nova-compute", "compute")
    ]


class Heartbeats:
    """A tracker of services that are down after a minute, and its clock."""

    def __init__(self, nova):
        self.clock = Clock()
        self.set_by = 0.0
        self._nova = nova
        self._tracker = ServiceTracker(lambda: 60.0, self.clock, self.now)

    def now(self):
        return STAMP + timedelta(seconds=self.clock.now + self.set_by)

    def beat(self, *hosts):
        self._nova.update(services, services.c.host.in_(hosts), last_seen_up=self.now())

    def ages(self):
        """Seconds since the heartbeat that the tracker has, by host, after an update."""
        with self._nova.cells[self._nova.cell1].connect() as connection:
            self._tracker.update(connection)
        rows = self._tracker.rows.values()
        return {row.host: (self.now() - row.last_seen_up).total_seconds() for row in rows}


def test_heartbeats_are_read_from_time_to_time(nova):
    beats = Heartbeats(nova)
    nova.add_service("cmp1", last_seen_up=beats.now())
    assert beats.ages() == {"cmp1": 0}
    beats.clock.now += HEARTBEATS_INTERVAL - 1
    beats.beat("cmp1")
    assert beats.ages() == {"cmp1": HEARTBEATS_INTERVAL - 1}
    beats.clock.now += 1
    assert beats.ages() == {"cmp1": 1}


@pytest.mark.parametrize("silent", [["cmp1"], ["cmp1", "cmp2", "cmp3"]])
def test_heartbeats_of_services_that_have_been_silent_are_read_at_each_update(nova, silent):
    beats = Heartbeats(nova)
    hosts = ["cmp1", "cmp2", "cmp3", "cmp4", "cmp5"]
    for host in hosts:
        nova.add_service(host, last_seen_up=beats.now())
    beats.ages()
    beats.clock.now += HEARTBEATS_INTERVAL + 1
    beats.beat(*set(hosts) - set(silent))
    beats.ages()
    for _ in range(3):
        beats.clock.now += 1
        beats.beat(*silent)
        assert [beats.ages()[host] for host in silent] == [0] * len(silent)


@pytest.mark.parametrize("set_by", [300, -300])
def test_heartbeats_are_read_at_once_after_the_wall_clock_was_set(nova, set_by):
    beats = Heartbeats(nova)
    nova.add_service("cmp1", last_seen_up=beats.now())
    beats.ages()
    beats.clock.now += 1
    beats.set_by = set_by
    beats.beat("cmp1")
    assert beats.ages() == {"cmp1": 0}


def test_a_service_of_the_future_is_silent_too(nova):
    beats = Heartbeats(nova)
    nova.add_service("cmp1", last_seen_up=beats.now() + timedelta(days=1))
    beats.ages()
    beats.beat("cmp1")
    assert beats.ages() == {"cmp1": 0}


def test_a_service_that_is_disabled_is_read_whole_at_once(nova, connection):
    nova.add_service("cmp1")
    tracker = ServiceTracker()
    tracker.update(connection)
    connection.rollback()
    nova.update(services, services.c.host == "cmp1", disabled=True, disabled_reason="fan", report_count=9)
    tracker.update(connection)
    row = tracker.rows[1]
    assert (row.disabled, row.disabled_reason, row.report_count) == (True, "fan", 9)


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


@pytest.mark.parametrize(("microsecond", "reads"), [(0, 2), (5, 1)])
def test_a_second_write_with_the_same_stamp_is_found_if_stamps_are_whole_seconds(nova, microsecond, reads):
    clock = Clock()
    nova.add_node("cmp1", updated_at=datetime(2026, 1, 2, 3, 4, 5, microsecond))
    tracker = NodeTracker(clock)
    assert update(tracker, nova) == ["cmp1"]
    nova.update(compute_nodes, compute_nodes.c.host == "cmp1", stats='{"io_workload": "9"}')
    found = []
    for _ in range(4):
        clock.now += REREAD_DELAY
        found += update(tracker, nova)
    assert len(found) == reads - 1


def test_a_row_with_a_stamp_of_whole_seconds_that_was_not_written_again_is_not_read_again(nova):
    clock = Clock()
    nova.add_node("cmp1", updated_at=datetime(2026, 1, 2, 3, 4, 5))
    tracker = NodeTracker(clock)
    update(tracker, nova)
    clock.now += REREAD_DELAY
    assert update(tracker, nova) == []


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
