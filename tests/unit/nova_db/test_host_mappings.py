import pytest
import sqlalchemy as sa

from scheduler.nova_db import host_mappings as host_cells_module
from scheduler.nova_db.cells import UNREADABLE
from scheduler.nova_db.host_mappings import HostCells
from scheduler.nova_db.schema import host_mappings

AWAY = "sqlite:////no/such/directory/x.db"


def test_a_mapping_is_remembered_and_its_absence_is_not(nova):
    host_cells = HostCells(nova.engines)
    assert host_cells.cell_of("cmp1") is None
    nova.map_host("cmp1")
    assert host_cells.cell_of("cmp1") == nova.cell1
    with nova.engines.api().begin() as connection:
        connection.execute(sa.delete(host_mappings))
    assert host_cells.cell_of("cmp1") == nova.cell1
    host_cells.forget()
    assert host_cells.cell_of("cmp1") is None


def test_a_mapping_is_not_remembered_for_ever(nova, monkeypatch):
    monkeypatch.setattr(host_cells_module, "HOST_TTL", -1)
    host_cells = HostCells(nova.engines)
    nova.map_host("cmp1")
    assert host_cells.cell_of("cmp1") == nova.cell1
    with nova.engines.api().begin() as connection:
        connection.execute(sa.delete(host_mappings))
    assert host_cells.cell_of("cmp1") is None


def test_mapped_if_nobody_can_tell(nova, caplog):
    nova.conf.set_override("connection", AWAY, "api_database")
    host_cells = HostCells(nova.engines)
    assert host_cells.mapped("cmp1")
    assert host_cells.mapped("cmp2")
    assert caplog.text.count("The cells of hosts cannot be read") == 1
    with pytest.raises(UNREADABLE):
        host_cells.cell_of("cmp1")
