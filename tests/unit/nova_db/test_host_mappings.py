import pytest
import sqlalchemy as sa

from scheduler.nova_db.cells import UNREADABLE
from scheduler.nova_db.host_mappings import HOST_TTL, HostCells
from scheduler.nova_db.schema import host_mappings
from tests.support.clock import Clock

AWAY = "sqlite:////no/such/directory/x.db"


def test_a_mapping_is_remembered_and_its_absence_is_not(nova):
    host_cells = HostCells(nova.engines)
    assert host_cells.cell_of("cmp1") is None
    nova.map_host("cmp1")
    assert host_cells.cell_of("cmp1") == nova.cell1
    with nova.engines.api().begin() as connection:
        connection.execute(sa.delete(host_mappings))
    assert host_cells.cell_of("cmp1") == nova.cell1
    host_cells.clear()
    assert host_cells.cell_of("cmp1") is None


@pytest.mark.parametrize(("seconds", "fresh"), [(HOST_TTL, False), (0, True)], ids=["too old", "fresh"])
def test_a_mapping_is_read_again_when_it_is_too_old_or_a_fresh_one_is_wanted(nova, seconds, fresh):
    clock = Clock()
    host_cells = HostCells(nova.engines, clock)
    nova.map_host("cmp1")
    assert host_cells.cell_of("cmp1") == nova.cell1
    with nova.engines.api().begin() as connection:
        connection.execute(sa.delete(host_mappings))
    clock.now += seconds
    assert host_cells.cell_of("cmp1", fresh=fresh) is None


def test_the_memory_of_mappings_is_bounded(nova):
    host_cells = HostCells(nova.engines, max_hosts=1)
    for host in ("cmp1", "cmp2"):
        nova.map_host(host)
        assert host_cells.cell_of(host) == nova.cell1
    with nova.engines.api().begin() as connection:
        connection.execute(sa.delete(host_mappings))
    assert [host_cells.cell_of(host) for host in ("cmp1", "cmp2")] == [None, nova.cell1]


def test_a_host_counts_as_mapped_if_the_database_cannot_be_read(nova, caplog):
    nova.conf.set_override("connection", AWAY, "api_database")
    host_cells = HostCells(nova.engines)
    assert host_cells.mapped("cmp1")
    assert host_cells.mapped("cmp2")
    assert caplog.text.count("The cells of hosts cannot be read") == 1
    with pytest.raises(UNREADABLE):
        host_cells.cell_of("cmp1")
