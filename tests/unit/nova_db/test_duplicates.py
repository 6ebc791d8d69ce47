from scheduler.nova_db.host_store import complain
from tests.builders import CELL, OTHER_CELL, make_host, make_table


def complaints(caplog, *hosts):
    caplog.clear()
    complain(make_table(hosts))
    return [record.getMessage() for record in caplog.records]


def test_unique_names(caplog):
    assert complaints(caplog, make_host("h1"), make_host("ironic", "n1"), make_host("ironic", "n2")) == []


def test_a_host_in_two_cells(caplog):
    said = complaints(caplog, make_host("h1", "n1"), make_host("h1", "n2").cell(OTHER_CELL))
    assert said == [f"Compute service h1 is in several cells: {CELL}, {OTHER_CELL}"]


def test_a_node_name_twice(caplog):
    said = complaints(caplog, make_host("h1", "n1"), make_host("h2", "n1").set(uuid="another"))
    assert len(said) == 1
    assert "n1" in said[0]


def test_a_node_in_two_cells(caplog):
    said = complaints(
        caplog, make_host("h1", "n1").set(uuid="u"), make_host("h2", "n2").set(uuid="u").cell(OTHER_CELL)
    )
    assert said == [f"Compute node u is in several cells: {CELL}, {OTHER_CELL}"]
