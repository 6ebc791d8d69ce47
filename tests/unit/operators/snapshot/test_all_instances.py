import pytest
import sqlalchemy as sa

from scheduler.nova_db.cells import UNREADABLE, Cells
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.operators.snapshot import all_instances
from scheduler.operators.snapshot.all_instances import AllInstances


@pytest.fixture
def source(nova):
    cells = Cells(nova.engines, nova.conf)
    cells.load()
    return AllInstances(cells, CellCalls(lambda: 10.0))


def test_all_live_instances_on_hosts_are_read_page_by_page(nova, source, monkeypatch):
    monkeypatch.setattr(all_instances, "PAGE", 2)
    uuids = [nova.add_instance(f"cmp{number}", vm_state="active") for number in range(5)]
    nova.add_instance("cmp9", deleted=1)
    nova.add_instance(None)
    pages = [page for _, page in source.pages()]
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [one.uuid for page in pages for one in page] == uuids
    assert source.count() == 5


def test_names_and_projects_are_read(nova, source):
    nova.add_instance("cmp1", vm_state="active", display_name="web", project_id="p")
    nova.add_instance("cmp2", vm_state="active", display_name=None, project_id=None)
    ((_, found),) = source.pages()
    assert [(one.name, one.project_id) for one in found] == [("web", "p"), ("", "")]


def test_soft_deleted_and_hidden_ones_are_told(nova, source):
    nova.add_instance("cmp1", vm_state="soft-delete", hidden=True)
    ((_, (one,)),) = source.pages()
    assert (one.vm_state, one.hidden) == ("soft-delete", True)


def test_a_cell_that_cannot_be_read_is_an_error(nova, source):
    with nova.cells[nova.cell1].begin() as connection:
        connection.execute(sa.text("ALTER TABLE instances RENAME TO elsewhere"))
    with pytest.raises(UNREADABLE):
        source.count()
