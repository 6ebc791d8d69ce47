import logging

from scheduler.logs import RateLimitedLogger
from scheduler.nova_db.host_store import report_duplicates
from tests.builders import CELL, OTHER_CELL, make_host, make_table

LOG = logging.getLogger(__name__)


def duplicates(caplog, *hosts):
    caplog.clear()
    report_duplicates(make_table(hosts), RateLimitedLogger(LOG))
    return [record.getMessage() for record in caplog.records]


def test_unique_names_are_not_reported(caplog):
    assert duplicates(caplog, make_host("h1"), make_host("ironic", "n1"), make_host("ironic", "n2")) == []


def test_a_host_in_two_cells_is_reported(caplog):
    said = duplicates(caplog, make_host("h1", "n1"), make_host("h1", "n2").cell(OTHER_CELL))
    assert said == [f"Compute service h1 is in several cells: {CELL}, {OTHER_CELL}"]


def test_a_node_name_of_two_nodes_is_reported(caplog):
    said = duplicates(caplog, make_host("h1", "n1"), make_host("h2", "n1").set(uuid="another"))
    assert len(said) == 1
    assert "n1" in said[0]


def test_a_node_in_two_cells_is_reported(caplog):
    said = duplicates(
        caplog, make_host("h1", "n1").set(uuid="u"), make_host("h2", "n2").set(uuid="u").cell(OTHER_CELL)
    )
    assert said == [f"Compute node u is in several cells: {CELL}, {OTHER_CELL}"]


def test_a_duplicate_that_is_still_there_is_reported_once(caplog):
    log = RateLimitedLogger(LOG, interval=10.0)
    for _ in range(3):
        report_duplicates(make_table([make_host("h1", "n1"), make_host("h1", "n2").cell(OTHER_CELL)]), log)
    assert len(caplog.records) == 1
