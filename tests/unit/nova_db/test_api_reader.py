import logging

import pytest
import sqlalchemy as sa

from scheduler.nova_db import api_reader
from scheduler.nova_db.api_reader import ApiReader
from scheduler.nova_db.cells import Cells
from scheduler.nova_db.host_mappings import HostMappings
from scheduler.nova_db.schema import aggregate_hosts, aggregate_metadata, aggregates, cell_mappings
from tests.support.waiting import eventually

AWAY = "sqlite:////no/such/directory/x.db"


@pytest.fixture
def reader(nova, clock):
    reader = ApiReader(nova.engines, Cells(nova.engines, nova.conf), HostMappings(nova.engines), clock)
    yield reader
    reader.loop.stop()


def on_host(reader, host):
    return [aggregate.id for aggregate in reader.aggregates.of_host(host)]


def test_unchanged_aggregates_stay_the_same_object(nova, reader):
    nova.add_aggregate("fast", ["h1"], {"a": "b"})
    reader.read()
    before = reader.aggregates
    reader.read()
    assert reader.aggregates is before


def test_tables_that_have_not_changed_are_not_read_again(nova, reader, monkeypatch):
    number = nova.add_aggregate("fast", ["h1"], {"a": "b"})
    nova.add_aggregate("slow", ["h2"])
    reader.read()
    readings, read = [], api_reader.read_aggregates
    monkeypatch.setattr(
        api_reader, "read_aggregates", lambda connection: readings.append(1) or read(connection)
    )
    reader.read()
    assert readings == []
    for table, changes in (
        (aggregate_hosts, {"host": "h9"}),
        (aggregate_metadata, {"value": "c"}),
        (aggregates, {"name": "renamed"}),
    ):
        with nova.engines.api().begin() as connection:
            connection.execute(sa.update(table).where(table.c.id == 1).values(**changes))
        reader.read()
        reader.read()
    assert len(readings) == 3
    assert on_host(reader, "h9") == [number]
    assert reader.aggregates.by_id[number].metadata == {"a": "c"}


def test_without_the_database_what_was_read_is_used(nova, reader, caplog):
    caplog.set_level(logging.INFO)
    number = nova.add_aggregate("fast", ["h1"])
    assert reader.read()
    url = nova.conf.api_database.connection
    nova.conf.set_override("connection", AWAY, "api_database")
    assert not any(reader.read() for _ in range(5))
    assert on_host(reader, "h1") == [number]
    assert len(reader.cells.all) == 1
    nova.conf.set_override("connection", url, "api_database")
    nova.engines.dispose()
    assert all(reader.read() for _ in range(2))
    assert caplog.text.count("Cannot read cells, aggregates and host mappings") == 1
    assert caplog.text.count("are read from the API database again") == 1


def test_it_reads_at_start_and_twice_after_a_cast(nova, reader, clock, monkeypatch):
    """A clustered database may show a change later than the cast about it arrives."""
    monkeypatch.setattr(api_reader, "REREAD_DELAY", 0.2)
    readings, read = [], reader.read
    monkeypatch.setattr(reader, "read", lambda: readings.append(1) or read())
    number = nova.add_aggregate("fast", ["h1"])
    reader.start()
    assert on_host(reader, "h1") == [number]
    with nova.engines.api().begin() as connection:
        connection.execute(sa.update(aggregate_hosts).values(host="h2"))
    reader.begin_reading()
    assert eventually(lambda: on_host(reader, "h2") == [number] and len(readings) == 2)
    clock.now += 1
    assert eventually(lambda: len(readings) == 3)


def test_a_slow_reading_after_a_cast_is_followed_by_a_second_one(reader, clock, monkeypatch):
    monkeypatch.setattr(api_reader, "REREAD_DELAY", 0.05)
    readings = []

    def read():
        readings.append(1)
        clock.now += 0.1
        return True

    monkeypatch.setattr(reader, "read", read)
    reader.start()
    reader.begin_reading()
    assert eventually(lambda: len(readings) == 3)


@pytest.mark.parametrize(
    ("away", "unmapped", "wait"),
    [(False, False, 60.0), (False, True, 5.0), (True, False, 2.0)],
    ids=["all is read", "a host is mapped to no cell", "the database is away"],
)
def test_the_time_to_the_next_reading(nova, reader, monkeypatch, away, unmapped, wait):
    waits = []
    monkeypatch.setattr(reader.loop, "start", waits.append)
    if unmapped:
        assert reader.mappings.follow(["h1"])
    if away:
        nova.conf.set_override("connection", AWAY, "api_database")
    reader.start()
    assert (waits, reader.was_read) == ([wait], not away)


def test_it_reads_again_after_the_interval(nova, reader, monkeypatch):
    monkeypatch.setattr(api_reader, "INTERVAL", 0.01)
    reader.start()
    nova.insert_api(cell_mappings, uuid="c2")
    assert eventually(lambda: reader.cells.knows("c2"))
