import pytest
import sqlalchemy as sa

from scheduler.nova_db import host_mappings as host_mappings_module
from scheduler.nova_db.cells import UNREADABLE
from scheduler.nova_db.host_mappings import HostMappings
from scheduler.nova_db.schema import host_mappings
from tests.support.clock import Clock

AWAY = "sqlite:////no/such/directory/x.db"


def test_the_cell_of_a_host_is_remembered_if_the_host_is_followed(nova):
    mappings = HostMappings(nova.engines)
    assert mappings.cell_of("cmp1") is None
    nova.map_host("cmp1")
    assert mappings.cell_of("cmp1") == nova.cell1
    mappings.follow(["cmp1"])
    mappings.load()
    with nova.engines.api().begin() as connection:
        connection.execute(sa.delete(host_mappings))
    assert mappings.cell_of("cmp1") == nova.cell1
    assert mappings.cell_of("cmp1", fresh=True) is None
    mappings.load()
    assert mappings.cell_of("cmp1") is None


def test_a_host_counts_as_mapped_if_the_database_cannot_be_read(nova, caplog):
    nova.conf.set_override("connection", AWAY, "api_database")
    mapped = HostMappings(nova.engines)
    mapped.follow(["cmp1", "cmp2"])
    for _ in range(2):
        with pytest.raises(UNREADABLE):
            mapped.load()
    assert "cmp1" in mapped
    assert "cmp2" in mapped
    assert mapped.cell_of("cmp1") is None
    assert "Cannot read the host mappings: " in caplog.text


def test_hosts_without_a_mapping_are_reported_once_a_day(nova, caplog):
    clock = Clock()
    mapped = HostMappings(nova.engines, clock)
    nova.map_host("cmp1")
    mapped.follow(["cmp1", "cmp2"])
    for _ in range(3):
        mapped.load()
        clock.now += 5
    assert ("cmp1" in mapped, "cmp2" in mapped) == (True, False)
    assert caplog.text.count("Host cmp2 has no host mapping") == 1
    clock.now += 86400
    mapped.load()
    assert caplog.text.count("Host cmp2 has no host mapping") == 2


def test_a_host_that_is_mapped_later_is_found_by_the_next_reading(nova):
    mapped = HostMappings(nova.engines)
    mapped.follow(["cmp1"])
    mapped.load()
    assert "cmp1" not in mapped
    nova.map_host("cmp1")
    mapped.load()
    assert "cmp1" in mapped


def test_a_mapping_that_is_gone_is_noticed_by_the_next_reading(nova):
    mapped = HostMappings(nova.engines)
    nova.map_host("cmp1")
    mapped.follow(["cmp1"])
    mapped.load()
    with nova.engines.api().begin() as connection:
        connection.execute(sa.delete(host_mappings))
    mapped.load()
    assert "cmp1" not in mapped


def test_mappings_that_have_not_changed_are_not_read_again(nova, monkeypatch):
    mapped = HostMappings(nova.engines)
    nova.map_host("cmp1")
    mapped.follow(["cmp1"])
    mapped.load()
    readings, read = [], host_mappings_module._cells_of

    def recorded(connection, hosts):
        readings.append(set(hosts))
        return read(connection, hosts)

    monkeypatch.setattr(host_mappings_module, "_cells_of", recorded)
    mapped.load()
    mapped.follow(["cmp1", "cmp2"])
    mapped.load()
    assert "cmp2" not in mapped
    nova.map_host("cmp2")
    mapped.load()
    mapped.load()
    assert readings == [set(), {"cmp2"}, {"cmp1", "cmp2"}, set()]
    assert "cmp2" in mapped


def test_asking_for_a_host_reads_nothing(nova):
    mapped = HostMappings(nova.engines)
    mapped.follow(["cmp1"])
    mapped.load()
    nova.conf.set_override("connection", AWAY, "api_database")
    nova.engines.dispose()
    assert "cmp1" not in mapped


def test_names_that_a_database_takes_for_equal_are_one_host(nova):
    """As MySQL does: conductors find the mapping of a host whose name has other capitals now."""
    with nova.engines.api().begin() as connection:
        connection.execute(sa.text("ALTER TABLE host_mappings RENAME TO kept"))
        connection.execute(
            sa.text("CREATE TABLE host_mappings (id INTEGER, host TEXT COLLATE NOCASE, cell_id INTEGER)")
        )
        connection.execute(sa.text("INSERT INTO host_mappings VALUES (1, 'cmp1.example.org', 1)"))
    mapped = HostMappings(nova.engines)
    mapped.follow(["CMP1.example.org", "cmp2"])
    mapped.load()
    assert ("CMP1.example.org" in mapped, "cmp2" in mapped) == (True, False)


def test_a_host_that_is_forgotten_while_its_cell_is_looked_up_is_read(nova, monkeypatch):
    mappings = HostMappings(nova.engines)
    nova.map_host("cmp1")

    class Forgetting(dict):
        """The loop replaces it between two accesses."""

        def __contains__(self, host):
            mappings._cells = {}
            return True

    monkeypatch.setattr(mappings, "_cells", Forgetting())
    assert mappings.cell_of("cmp1") == nova.cell1
