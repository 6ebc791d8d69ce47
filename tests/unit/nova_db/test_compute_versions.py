import time

import pytest
import sqlalchemy as sa

from scheduler.nova_db.cells import Cells
from scheduler.nova_db.compute_versions import UNKNOWN_TTL, VERSION_TTL, MinimumVersion
from scheduler.nova_db.scatter_gather import CellCalls
from tests.support.clock import Clock


def versions_of(nova, clock=time.monotonic):
    cells = Cells(nova.engines, nova.conf)
    cells.load()
    return MinimumVersion(cells, CellCalls(lambda: 10.0), clock)


def test_without_computes_it_is_zero(nova):
    assert versions_of(nova).get() == 0


def test_cell0_counts_and_a_cell_that_is_away_does_not(nova):
    cell0 = nova.add_cell0()
    nova.add_cell("away", reachable=False)
    nova.add_service("odd", cell=cell0, version=68)
    nova.add_service("cmp1", version=74)
    assert versions_of(nova).get() == 68


@pytest.mark.parametrize("expire", ["clear", "time"])
def test_a_version_is_remembered_until_it_is_cleared_or_too_old(nova, expire):
    clock = Clock()
    versions = versions_of(nova, clock)
    nova.add_service("cmp1", version=74)
    assert versions.get() == 74
    nova.add_service("cmp2", version=66)
    assert versions.get() == 74
    clock.now += VERSION_TTL - 1
    assert versions.get() == 74
    if expire == "clear":
        versions.clear()
    else:
        clock.now += 1
    assert versions.get() == 66


@pytest.mark.parametrize(("version", "said"), [(65, 1), (66, 0), (74, 0), (None, 0)])
def test_unsupported_computes_are_reported(nova, caplog, version, said):
    nova.add_service("cmp1", version=version)
    versions_of(nova).warn_if_unsupported()
    assert caplog.text.count("releases before nova 27 (version 66) are not supported") == said


def test_if_no_cell_answers_the_last_known_version_is_used(nova, caplog):
    versions = versions_of(nova)
    nova.add_service("cmp1", version=72)
    assert versions.get() == 72
    with nova.cells[nova.cell1].begin() as connection:
        connection.execute(sa.text("ALTER TABLE services RENAME TO elsewhere"))
    versions.clear()
    assert versions.get() == 72
    assert "Cannot read the service versions" in caplog.text


def test_a_version_that_is_not_known_is_not_remembered_for_long(nova):
    clock, cells = Clock(), Cells(nova.engines, nova.conf)
    versions = MinimumVersion(cells, CellCalls(lambda: 10.0), clock)
    nova.add_service("cmp1", version=74)
    assert versions.get() == 0
    cells.load()
    clock.now += UNKNOWN_TTL
    assert versions.get() == 74
