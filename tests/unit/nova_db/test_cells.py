import logging

import pytest
import sqlalchemy as sa

from scheduler.errors import ConfigError
from scheduler.nova_db import cells as cells_module
from scheduler.nova_db.cells import CELL0, Cell, Cells
from scheduler.nova_db.schema import cell_mappings

AWAY = "sqlite:////no/such/directory/x.db"


@pytest.fixture
def cells(nova):
    return Cells(nova.engines, nova.conf)


def test_cell0_has_no_computes(nova, cells):
    nova.add_cell0()
    cells.load()
    assert [cell.name for cell in cells.all] == ["cell1"]
    assert {cell.uuid for cell in cells.with_cell0} == {CELL0, nova.cell1}


@pytest.mark.parametrize(("disabled", "expected"), [(True, {"c2"}), (False, set()), (None, set())])
def test_disabled_cells(nova, cells, disabled, expected):
    nova.insert_api(cell_mappings, uuid="c2", disabled=disabled)
    cells.load()
    assert cells.disabled == expected
    assert len(cells.all) == 2


def test_urls_are_expanded(nova, cells):
    nova.insert_api(cell_mappings, uuid="c2", name="two", database_connection="{scheme}:////tmp/two.db")
    cells.load()
    assert cells.all[1].url == "sqlite:////tmp/two.db"
    assert str(cells.all[1]) == "two (c2)"


def test_a_cell_without_url(nova, cells):
    nova.insert_api(cell_mappings, uuid="c2", database_connection=None)
    cells.load()
    with pytest.raises(ConfigError, match="no database connection"):
        cells.engine(cells.all[1])
    assert cells.engine(cells.all[0]) is nova.cells[nova.cell1]


def test_no_cells(nova, cells, caplog):
    with nova.engines.api().begin() as connection:
        connection.execute(sa.delete(cell_mappings))
    with caplog.at_level(logging.WARNING):
        assert cells.load()
    assert "no cells" in caplog.text


def test_known_cells(nova, cells):
    assert not cells.knows(nova.cell1)
    cells.load()
    assert cells.knows(nova.cell1)
    assert not cells.knows("c2")


def test_the_list_is_read_once_unless_asked_for(nova, cells):
    assert cells.load_if_needed()
    nova.insert_api(cell_mappings, uuid="c2")
    assert cells.load_if_needed()
    assert len(cells.all) == 1
    assert cells.load()
    assert len(cells.all) == 2


def test_without_the_database_the_last_list_stays(nova, cells, monkeypatch):
    assert cells.load()
    nova.conf.set_override("connection", AWAY, "api_database")
    assert cells.load()
    assert len(cells.all) == 1


def test_an_absent_database_is_not_tried_all_the_time(nova, cells, caplog, monkeypatch):
    nova.conf.set_override("connection", AWAY, "api_database")
    with caplog.at_level(logging.ERROR):
        assert not any(cells.load() for _ in range(5))
    assert caplog.text.count("cannot be read") == 1
    monkeypatch.setattr(cells, "_retry_at", 0.0)
    nova.conf.clear_override("connection", "api_database")
    assert not cells.load()
    assert "is not set" in caplog.text


def test_the_end_of_an_outage_is_told(nova, cells, caplog, monkeypatch):
    monkeypatch.setattr(cells_module, "RETRY", 0.0)
    connection = nova.conf.api_database.connection
    nova.conf.set_override("connection", AWAY, "api_database")
    for _ in range(5):
        cells.load()
    nova.conf.set_override("connection", connection, "api_database")
    with caplog.at_level(logging.INFO):
        assert cells.load()
    assert caplog.text.count("cannot be read") == 1
    assert caplog.text.count("can be read from the API database again") == 1


def test_a_nameless_cell():
    assert str(Cell(1, "c1", None, None, True)) == "unnamed (c1)"
