import logging

import pytest
import sqlalchemy as sa

from scheduler import objects
from scheduler.nova_db import aggregate_store
from scheduler.nova_db.aggregate_store import AggregateStore
from scheduler.nova_db.schema import aggregate_hosts, aggregate_metadata, aggregates
from tests.support.waiting import eventually


@pytest.fixture
def store(nova):
    store = AggregateStore(nova.engines, 1000.0)
    yield store
    store.stop()


def wire(number, hosts, **metadata):
    return objects.Aggregate(id=number, uuid=f"u{number}", name=f"a{number}", hosts=hosts, metadata=metadata)


def on_host(store, host):
    return [aggregate.id for aggregate in store.current.of_host(host)]


def test_a_cast_is_used_at_once(store):
    store.update([wire(1, ["h1"], ssd="true")])
    assert on_host(store, "h1") == [1]
    assert store.current.by_id[1].metadata == {"ssd": "true"}
    store.update([wire(1, [])])
    assert on_host(store, "h1") == []


def test_a_cast_removes_a_deleted_aggregate(store):
    store.update([wire(1, ["h1"]), wire(2, ["h1"])])
    store.delete(wire(1, []))
    store.delete(wire(9, []))
    assert on_host(store, "h1") == [2]


def test_the_database_replaces_what_casts_said(nova, store):
    number = nova.add_aggregate("fast", ["h1"])
    store.update([wire(number, ["h2"])])
    store.update([wire(99, ["h2"])])
    assert store.reload()
    assert (on_host(store, "h1"), on_host(store, "h2")) == ([number], [])


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
    store.update([wire(number, ["h3"])])
    store.reload()
    assert (len(readings), on_host(store, "h3"), on_host(store, "h9")) == (4, [], [number])


def test_a_cast_during_a_reading_is_kept(nova, store, monkeypatch):
    read = aggregate_store.read_aggregates

    def slow(connection):
        found = read(connection)
        store.update([wire(7, ["h7"])])
        return found

    monkeypatch.setattr(aggregate_store, "read_aggregates", slow)
    assert store.reload()
    assert on_host(store, "h7") == [7]


def test_without_the_database_casts_are_used(nova, store, caplog):
    nova.conf.set_override("connection", "sqlite:////no/such/directory/x.db", "api_database")
    store.update([wire(1, ["h1"])])
    with caplog.at_level(logging.ERROR):
        assert not any(store.reload() for _ in range(5))
    assert on_host(store, "h1") == [1]
    assert caplog.text.count("Cannot read the aggregates") == 1


def test_started_it_reads_now_and_after_each_cast(nova, store):
    number = nova.add_aggregate("fast", ["h1"])
    store.start()
    assert on_host(store, "h1") == [number]
    with nova.engines.api().begin() as connection:
        connection.execute(sa.update(aggregate_hosts).values(host="h2"))
    store.update([wire(number, ["h3"])])
    assert eventually(lambda: on_host(store, "h2") == [number])
    assert on_host(store, "h3") == []


def test_started_without_the_database_it_reads_when_it_is_back(nova):
    store = AggregateStore(nova.engines, 1000.0, retry_interval=0.01)
    number = nova.add_aggregate("fast", ["h1"])
    connection = nova.conf.api_database.connection
    nova.conf.set_override("connection", "sqlite:////no/such/directory/x.db", "api_database")
    store.start()
    assert on_host(store, "h1") == []
    nova.conf.set_override("connection", connection, "api_database")
    assert eventually(lambda: on_host(store, "h1") == [number])
    assert store.stop()


def test_it_reads_again_after_the_interval(nova):
    store = AggregateStore(nova.engines, 0.01)
    store.start()
    number = nova.add_aggregate("fast", ["h1"])
    assert eventually(lambda: on_host(store, "h1") == [number])
    assert store.stop()


def test_of_simultaneous_casts_the_database_decides_even_while_casts_go_on(nova, store, monkeypatch):
    number = nova.add_aggregate("fast", ["h1", "h2"])
    read = aggregate_store.read_aggregates

    def during_other_casts(connection):
        found = read(connection)
        store.update([wire(77, ["h7"])])
        return found

    monkeypatch.setattr(aggregate_store, "read_aggregates", during_other_casts)
    store.update([wire(number, ["h1"])])
    store.update([wire(number, ["h2"])])
    assert store.reload()
    assert (on_host(store, "h1"), on_host(store, "h2"), on_host(store, "h7")) == ([number], [number], [77])


def test_a_deletion_during_a_reading_is_kept(nova, store, monkeypatch):
    number = nova.add_aggregate("fast", ["h1"])
    read = aggregate_store.read_aggregates

    def slow(connection):
        found = read(connection)
        store.delete(wire(number, []))
        return found

    monkeypatch.setattr(aggregate_store, "read_aggregates", slow)
    assert store.reload()
    assert on_host(store, "h1") == []
