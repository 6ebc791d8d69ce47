from datetime import timedelta
import logging

from oslo_db.exception import DBDeadlock, DBDuplicateEntry
import pytest
import sqlalchemy as sa

from scheduler.nova_db.schema import services, utcnow
from scheduler.nova_service.service_record import OwnService, live_schedulers


@pytest.fixture
def own(nova):
    return OwnService(nova.conf, nova.engines)


def beats(nova):
    return [(row.host, row.report_count) for row in nova.rows(services)]


@pytest.mark.parametrize(
    ("others", "version"),
    [
        ([], 66),
        ([("nova-conductor", 70, 0), ("nova-scheduler", 72, 0)], 70),
        ([("nova-compute", 50, 0)], 66),
        ([("nova-conductor", 60, 9), ("nova-conductor", 0, 0), ("nova-conductor", None, 0)], 66),
    ],
)
def test_the_version_of_a_new_row(nova, own, others, version):
    for number, (binary, their_version, deleted) in enumerate(others):
        nova.add_service(f"other{number}", binary=binary, version=their_version, deleted=deleted)
    own.beat()
    assert nova.rows(services)[-1].version == version


def test_a_new_row_is_told_once_and_an_adopted_one_never(nova):
    told = []
    for _ in range(2):
        own = OwnService(nova.conf, nova.engines, told.append)
        own.beat()
        own.beat()
    (row,) = told
    (stored,) = nova.rows(services)
    assert {name: row[name] for name in ("id", "uuid", "host", "binary", "topic", "version")} == {
        "id": stored.id,
        "uuid": stored.uuid,
        "host": "controller",
        "binary": "nova-scheduler",
        "topic": "scheduler",
        "version": 66,
    }


def test_a_row_that_is_there_is_adopted(nova, own):
    nova.add_service("controller", binary="nova-scheduler", version=60, report_count=5, last_seen_up=None)
    own.beat()
    own.beat()
    (row,) = nova.rows(services)
    assert (row.version, row.report_count, row.updated_at) == (60, 6, row.last_seen_up)


def test_a_deleted_row_and_other_hosts_are_not_adopted(nova, own):
    nova.add_service("controller", binary="nova-scheduler", deleted=1)
    nova.add_service("controller", binary="nova-conductor")
    nova.add_service("Controller2", binary="nova-scheduler")
    own.beat()
    own.beat()
    assert beats(nova) == [("controller", 0), ("controller", 0), ("Controller2", 0), ("controller", 1)]


def test_a_sibling_was_faster(nova, own, monkeypatch):
    def beaten():
        nova.add_service("controller", binary="nova-scheduler", report_count=3)
        raise DBDuplicateEntry

    monkeypatch.setattr(own, "_insert", beaten)
    own.beat()
    own.beat()
    assert beats(nova) == [("controller", 4)]


def test_a_row_that_an_operator_deleted_is_not_made_again(nova, own, caplog):
    own.beat()
    with nova.engines.local().begin() as connection:
        connection.execute(sa.delete(services))
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            own.beat()
    assert nova.rows(services) == []
    assert caplog.text.count("was deleted") == 1


def test_without_the_database_it_tries_again(nova, own, caplog):
    connection = nova.conf.database.connection
    nova.conf.set_override("connection", "sqlite:////no/such/directory/x.db", "database")
    for _ in range(5):
        own.beat()
    assert caplog.text.count("Cannot write the heartbeat") == 1
    nova.conf.set_override("connection", connection, "database")
    with caplog.at_level(logging.INFO):
        own.beat()
        own.beat()
    assert caplog.text.count("is written again") == 1
    assert beats(nova) == [("controller", 1)]


def test_a_deadlock_is_no_failure(nova, own, monkeypatch):
    own.beat()
    local, deadlocks = nova.engines.local, iter([True, True])

    def sometimes():
        if next(deadlocks, False):
            raise DBDeadlock
        return local()

    monkeypatch.setattr(nova.engines, "local", sometimes)
    own.beat()
    assert beats(nova) == [("controller", 1)]


def ago(seconds):
    return utcnow() - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"last_seen_up": 1}, True),
        ({"last_seen_up": 300, "updated_at": 0}, False),
        ({"created_at": 10}, True),
        ({"last_seen_up": 300, "created_at": 0}, False),
        ({"last_seen_up": -100}, True),
        ({"last_seen_up": -300}, False),
        ({}, False),
    ],
)
def test_a_scheduler_is_up_if_it_was_seen_recently(nova, columns, expected):
    # seconds ago, counted when the test runs: it is collected minutes earlier
    times = {"last_seen_up": None, "created_at": None} | {name: ago(age) for name, age in columns.items()}
    nova.add_service("h", binary="nova-scheduler", **times)
    assert live_schedulers(nova.engines, 200) == ["h"] * expected


def test_schedulers_are_alive_that_have_written_a_heartbeat_lately(nova):
    for host, binary, age, deleted in (
        ("b", "nova-scheduler", 10, 0),
        ("a", "nova-scheduler", 50, 0),
        ("silent", "nova-scheduler", 100, 0),
        ("gone", "nova-scheduler", 10, 1),
        ("other", "nova-conductor", 10, 0),
    ):
        nova.add_service(host, binary=binary, last_seen_up=ago(age), deleted=deleted)
    assert live_schedulers(nova.engines, 60) == ["a", "b"]
