import logging

from hypothesis import given
from hypothesis import strategies as st
import pytest
import sqlalchemy as sa

from scheduler.errors import ConfigError
from scheduler.nova_db.cells import UNREADABLE, Cell, Cells, expand_template
from scheduler.nova_db.schema import cell_mappings

AWAY = "sqlite:////no/such/directory/x.db"


@pytest.fixture
def cells(nova):
    return Cells(nova.engines, nova.conf)


def test_cell0_has_no_computes(nova, cells):
    nova.add_cell0()
    cells.load()
    assert [cell.name for cell in cells.all] == ["cell1"]


@pytest.mark.parametrize(("disabled", "expected"), [(True, {"c2"}), (False, set()), (None, set())])
def test_disabled_cells_are_those_marked_so(nova, cells, disabled, expected):
    nova.insert_api(cell_mappings, uuid="c2", disabled=disabled)
    cells.load()
    assert cells.disabled == expected
    assert len(cells.all) == 2


def test_templates_of_urls_are_expanded(nova, cells):
    nova.insert_api(cell_mappings, uuid="c2", name="two", database_connection="{scheme}:////tmp/two.db")
    cells.load()
    assert cells.all[1].url == "sqlite:////tmp/two.db"
    assert str(cells.all[1]) == "two (c2)"


def test_a_cell_without_url_has_no_engine(nova, cells):
    nova.insert_api(cell_mappings, uuid="c2", database_connection=None)
    cells.load()
    with pytest.raises(ConfigError, match="no database connection"):
        cells.engine(cells.all[1])
    assert cells.engine(cells.all[0]) is nova.cells[nova.cell1]


def test_the_connections_of_cells_that_are_gone_or_moved_are_closed(nova, cells):
    for uuid in ("c2", "c3"):
        nova.insert_api(cell_mappings, uuid=uuid, database_connection="sqlite:////tmp/old.db")
    cells.load()
    before = {cell.uuid: (cells.engine(cell), cells.engine(cell).pool) for cell in cells.all}
    with nova.engines.api().begin() as connection:
        connection.execute(sa.delete(cell_mappings).where(cell_mappings.c.uuid == "c2"))
        moved = sa.update(cell_mappings).where(cell_mappings.c.uuid == "c3")
        connection.execute(moved.values(database_connection="sqlite:////tmp/new.db"))
    cells.load()
    assert {uuid: engine.pool is pool for uuid, (engine, pool) in before.items()} == {
        nova.cell1: True,
        "c2": False,
        "c3": False,
    }
    assert {cell.uuid: cells.engine(cell) is before[cell.uuid][0] for cell in cells.all} == {
        nova.cell1: True,
        "c3": False,
    }


def test_without_cells_a_warning_is_logged(nova, cells, caplog):
    with nova.engines.api().begin() as connection:
        connection.execute(sa.delete(cell_mappings))
    with caplog.at_level(logging.WARNING):
        cells.load()
    assert "No cells except cell0" in caplog.text


def test_cells_are_known_once_they_are_loaded(nova, cells):
    assert not cells.knows(nova.cell1)
    cells.load()
    assert cells.knows(nova.cell1)
    assert not cells.knows("c2")


def test_a_disabled_cell_is_named_once_and_so_is_its_return(nova, cells, caplog):
    caplog.set_level(logging.INFO, "nova.scheduler.nova_db.cells")
    nova.insert_api(cell_mappings, uuid="c2", name="two", disabled=True)
    cells.load()
    cells.load()
    assert caplog.messages == ["Cell two (c2) is disabled: only requests that name it get its hosts"]
    caplog.clear()
    with nova.engines.api().begin() as connection:
        connection.execute(sa.update(cell_mappings).values(disabled=False))
    cells.load()
    assert caplog.messages == ["Cell two (c2) is enabled again"]


def test_cells_that_come_and_go_are_named(nova, cells, caplog):
    caplog.set_level(logging.INFO, "nova.scheduler.nova_db.cells")
    cells.load()
    nova.insert_api(cell_mappings, uuid="c2", name="two")
    cells.load()
    with nova.engines.api().begin() as connection:
        connection.execute(sa.delete(cell_mappings).where(cell_mappings.c.uuid == "c2"))
    cells.load()
    assert caplog.messages == [
        "Cell two (c2) was added",
        "Cell two (c2) was deleted: its hosts are no longer used",
    ]


def test_without_the_database_the_last_list_stays(nova, cells):
    cells.load()
    nova.conf.set_override("connection", AWAY, "api_database")
    with pytest.raises(UNREADABLE):
        cells.load()
    assert len(cells.all) == 1


def test_a_cell_without_name_is_called_unnamed():
    assert str(Cell(1, "c1", None, None, True)) == "unnamed (c1)"


# -- templates ----------------------------------------------------------------------------------------------------

ONE = "mysql+pymysql://nova:s%40cret@DB.Example.org:3306/nova_cell0?charset=utf8#frag"
BARE = "sqlite:////a/b.db"
SOCKET = "mysql+pymysql://db/nova"
SIX = "mysql+pymysql://u:p@[2001:db8::1]:3306/nova"
SEVERAL = "mysql+pymysql://u1:p1@h1:3306,:p2@H2,u3@h3:3308/nova"
SEVERAL_BARE = "mysql+pymysql://h1:3306,h2:3307/nova"


@pytest.mark.parametrize(
    ("template", "reference", "expected"),
    [
        (
            "{scheme}://{username}:{password}@{hostname}:{port}/nova_cell1?{query}",
            ONE,
            "mysql+pymysql://nova:s%40cret@db.example.org:3306/nova_cell1?charset=utf8",
        ),
        ("{path}|{fragment}", ONE, "nova_cell0|frag"),
        ("{path}|{query}|{fragment}", BARE, "a/b.db||"),
        ("{username}:{password}@{hostname}:{port}", SOCKET, "None:None@db:None"),
        ("[{hostname}]:{port}", SIX, "[2001:db8::1]:3306"),
        ("{username1}:{password1}@{hostname1}:{port1}", SEVERAL, "u1:p1@h1:3306"),
        ("{username2}:{password2}@{hostname2}:{port2}", SEVERAL, ":p2@h2:None"),
        ("{username3}:{password3}@{hostname3}:{port3}", SEVERAL, "u3:None@h3:3308"),
        ("{username}:{password}@{hostname}:{port}", "x://u:p@h1:1,u:p@h2:2/n", "u:p@h1:1,u:p@h2:2"),
        ("{scheme}", SEVERAL_BARE, "{scheme}"),
        ("{username1}", ONE, "{username1}"),
        ("mysql://u:{{x@h/n", ONE, "mysql://u:{x@h/n"),
        ("mysql://u:{x@h/n", ONE, "mysql://u:{x@h/n"),
        ("mysql://u:}x@h/n", ONE, "mysql://u:}x@h/n"),
        ("{unknown}", ONE, "{unknown}"),
        ("{}", ONE, "{}"),
        ("{port}", "x://h:port/n", "{port}"),
        ("plain", ONE, "plain"),
        ("plain", None, "plain"),
        ("{scheme}", None, "{scheme}"),
    ],
)
def test_templates_name_parts_of_the_reference_url(template, reference, expected):
    assert expand_template(template, reference, "cell1") == expected


@pytest.mark.parametrize(("template", "reference"), [("{unknown}", ONE), ("{scheme}", None), ("{", ONE)])
def test_a_template_that_cannot_be_expanded_is_logged_without_secrets(caplog, template, reference):
    with caplog.at_level(logging.ERROR):
        expand_template(f"mysql://u:verysecret@h/{template}", reference, "cell1")
    assert "cell1" in caplog.text
    assert "secret" not in caplog.text


@given(st.text(), st.text())
def test_no_template_raises_an_error(template, reference):
    assert isinstance(expand_template(template, reference, "cell1"), str)
