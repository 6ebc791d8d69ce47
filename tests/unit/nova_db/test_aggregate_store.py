import logging
import time

import pytest
import sqlalchemy as sa

from scheduler.nova_db import aggregate_store
from scheduler.nova_db.aggregate_store import AggregateStore
from scheduler.nova_db.schema import aggregate_hosts, aggregate_metadata, aggregates
from tests.support.waiting import eventually


@pytest.fixture
def store(nova):
    store = AggregateStore(nova.engines, 1000.0)
    yield store
    store.loop.stop()


def on_host(store, host):
    return [aggregate.id for aggregate in store.current.of_host(host)]


def test_unchanged_aggregates_stay_the_same_object(nova, store):
    nova.add_aggregate("fast", ["h1"], {"a": "b"})
    store.reload()
    before = store.current
    store.reload()
    assert store.current is before


def test_tables_that_have_not_changed_are_not_read_again(nova, store, monkeypatch):
    number = nova.add_aggregate("fast", ["h1"], {"a": "b"})
    nova.add_aggregate("slow", ["h2"])
    store.reload()
    readings, read = [], aggregate_store.read_aggregates
    monkeypatch.setattr(
        aggregate_store, "read_aggregates", lambda connection: readings.append(1) or read(connection)
    )
    store.reload()
    assert readings == []
    for table, changes in (
        (aggregate_hosts, {"host": "h9"}),
        (aggregate_metadata, {"value": "c"}),
        (aggregates, {"name": "renamed"}),
    ):
        with nova.engines.api().begin() as connection:
            connection.execute(sa.update(table).where(table.c.id == 1).values(**changes))
        store.reload()
        store.reload()
    assert len(readings) == 3
    assert on_host(store, "h9") == [number]
    assert store.current.by_id[number].metadata == {"a": "c"}


def test_without_the_database_the_last_ones_are_used(nova, store, caplog):
    number = nova.add_aggregate("fast", ["h1"])
    store.reload()
    nova.conf.set_override("connection", "sqlite:////no/such/directory/x.db", "api_database")
    with caplog.at_level(logging.ERROR):
        assert not any(store.reload() for _ in range(5))
    assert on_host(store, "h1") == [number]
    assert caplog.text.count("Cannot read the aggregates") == 1


def test_it_reads_at_start_and_twice_after_a_cast(nova, store, monkeypatch):
    """A clustered database may show a change later than the cast about it arrives."""
    monkeypatch.setattr(aggregate_store, "REREAD_DELAY", 0.2)
    readings, reload = [], store.reload
    monkeypatch.setattr(store, "reload", lambda: readings.append(1) or reload())
    number = nova.add_aggregate("fast", ["h1"])
    store.start()
    assert on_host(store, "h1") == [number]
    with nova.engines.api().begin() as connection:
        connection.execute(sa.update(aggregate_hosts).values(host="h2"))
    store.begin_reading()
    assert eventually(lambda: on_host(store, "h2") == [number] and len(readings) == 3)


def test_started_without_the_database_it_reads_when_it_is_back(nova):
    store = AggregateStore(nova.engines, 1000.0, retry_interval=0.01)
    number = nova.add_aggregate("fast", ["h1"])
    connection = nova.conf.api_database.connection
    nova.conf.set_override("connection", "sqlite:////no/such/directory/x.db", "api_database")
    store.start()
    assert on_host(store, "h1") == []
    nova.conf.set_override("connection", connection, "api_database")
    assert eventually(lambda: on_host(store, "h1") == [number])
    assert store.loop.stop()


def test_it_reads_again_after_the_interval(nova):
    store = AggregateStore(nova.engines, 0.01)
    store.start()
    number = nova.add_aggregate("fast", ["h1"])
    assert eventually(lambda: on_host(store, "h1") == [number])
    assert store.loop.stop()


def test_a_slow_reading_after_a_cast_is_followed_by_a_second_one(nova, store, monkeypatch):
    monkeypatch.setattr(aggregate_store, "REREAD_DELAY", 0.05)
    readings = []
    monkeypatch.setattr(store, "reload", lambda: readings.append(1) or not time.sleep(0.1))
    store.start()
    store.begin_reading()
    assert eventually(lambda: len(readings) == 3)
