from datetime import datetime

import pytest
import sqlalchemy as sa

from scheduler.nova_db import change_tracking
from scheduler.nova_db.cells import Cell
from scheduler.nova_db.change_tracking import CellFollower, NodeFollower, ServiceFollower, merged
from scheduler.nova_db.row_loader import RowLoader
from scheduler.nova_db.schema import compute_nodes, services


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
def test_merged(old, gone, fresh, expected):
    result = merged(old, gone, fresh)
    assert list(result.items()) == list(expected.items())


def test_merged_stays_the_same_if_nothing_differs():
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
def test_times_as_databases_print_them(nova, connection, stored, expected):
    nova.add_service("cmp1")
    with nova.cells[nova.cell1].begin() as writer:
        writer.execute(sa.text("UPDATE services SET last_seen_up = :stored"), {"stored": stored})
    follower = ServiceFollower()
    follower.read(connection)
    assert follower.rows[1].last_seen_up == expected


def test_only_compute_services(nova, connection):
    nova.add_service("cmp1")
    nova.add_service("cmp1", binary="nova-scheduler")
    nova.add_service("cmp2", deleted=2)
    follower = ServiceFollower()
    follower.read(connection)
    assert [(row.host, row.binary, row.topic) for row in follower.rows.values()] == [
        ("cmp1", "nova-compute", "compute")
    ]


def test_a_row_that_cannot_be_used_is_not_asked_for_again(nova, connection):
    nova.add_host("cmp1", free_disk_gb=None)
    loaded = []
    loader = RowLoader(nova.conf)

    def load(row):
        loaded.append(row.id)
        return loader.node(row, "cell", {})

    follower = NodeFollower()
    for _ in range(2):
        follower.read(connection, load)
    assert (loaded, follower.rows) == ([1], {})
    connection.rollback()
    nova.update(compute_nodes, compute_nodes.c.id == 1, free_disk_gb=1)
    follower.read(connection, load)
    assert [row.host for row in follower.rows.values()] == ["cmp1"]


@pytest.mark.parametrize(("microsecond", "looks"), [(0, 2), (5, 1)])
def test_whole_seconds_are_looked_at_again(nova, connection, monkeypatch, microsecond, looks):
    monkeypatch.setattr(change_tracking, "SETTLED", -1)
    nova.add_host("cmp1", updated_at=datetime(2026, 1, 2, 3, 4, 5, microsecond))
    loader, loaded = RowLoader(nova.conf), []
    follower = NodeFollower()
    for _ in range(4):
        follower.read(connection, lambda row: loaded.append(row.id) or loader.node(row, "cell", {}))
    assert len(loaded) == looks


def test_an_error_on_the_way_loses_no_change(nova, connection):
    nova.add_host("cmp1")
    follower, loader = NodeFollower(), RowLoader(nova.conf)
    with pytest.raises(ZeroDivisionError):
        follower.read(connection, lambda row: 1 / 0)
    follower.read(connection, lambda row: loader.node(row, "cell", {}))
    assert len(follower.rows) == 1


def test_a_cell(nova):
    nova.add_host("cmp1")
    follower = CellFollower(Cell(1, nova.cell1, "cell1", "", True), RowLoader(nova.conf))
    assert follower.rows.read_at == float("-inf")
    follower.read(nova.cells[nova.cell1])
    assert list(follower.rows.services) == [(nova.cell1, "cmp1")]
    nova.update(services, services.c.host == "cmp1", deleted=1)
    follower.read(nova.cells[nova.cell1])
    assert (list(follower.rows.services), len(follower.rows.nodes)) == ([], 1)


def test_a_cell_is_read_by_one_thread_at_a_time(nova):
    nova.add_host("cmp1")
    follower = CellFollower(Cell(1, nova.cell1, "cell1", "", True), RowLoader(nova.conf))
    with follower._lock:
        follower.read(nova.cells[nova.cell1])
    assert follower.rows.nodes == {}
