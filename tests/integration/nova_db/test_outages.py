"""Database servers that hang: their processes are stopped, as by SIGSTOP or a dead disk."""

import contextlib
import logging
import os
import signal
import threading
import time

import pytest
import sqlalchemy as sa

from scheduler.nova_db.aggregate_store import AggregateStore
from scheduler.nova_db.cells import Cells
from scheduler.nova_db.host_store import HostStore
from scheduler.nova_db.row_loader import RowLoader
from scheduler.nova_db.scatter_gather import CellCalls
from tests.support.nova_databases import NovaDatabases
from tests.support.waiting import eventually

TIMEOUT = 1.0

pytestmark = pytest.mark.postgresql


@pytest.fixture
def nova(postgresql_databases):
    with contextlib.closing(NovaDatabases(postgresql_databases)) as databases:
        databases.conf.set_override("cell_timeout", TIMEOUT, "berth")
        databases.engines.dispose()  # engines made from now on have the timeout
        yield databases
        databases.empty()


@pytest.fixture
def backends(postgresql_url):
    """A function that stops the server processes of a database; they go on when the test is over."""
    engine = sa.create_engine(postgresql_url, poolclass=sa.NullPool)
    stopped = []

    def stop(url):
        with engine.connect() as connection:
            query = sa.text("SELECT pid FROM pg_stat_activity WHERE datname = :name")
            pids = connection.execute(query, {"name": sa.make_url(url).database}).scalars().all()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
            stopped.append(pid)
        return pids

    yield stop
    for pid in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def cell_threads():
    return [thread for thread in threading.enumerate() if thread.name == "cell-cell1"]


@pytest.fixture
def store(nova):
    cells = Cells(nova.engines, nova.conf)
    store = HostStore(
        cells,
        CellCalls(lambda: TIMEOUT),
        RowLoader(nova.conf),
        AggregateStore(nova.engines, lambda: 60.0),
        max_age=lambda: 0.0,
    )
    store.refresh()
    return store


def test_a_cell_whose_server_process_is_stopped_comes_back(nova, store, backends, caplog):
    nova.add_host("cmp1")
    assert len(store.refresh()) == 1
    nova.engines.local().dispose()  # connections of this test
    nova.cells[nova.cell1].dispose()
    assert backends(nova.conf.database.connection)
    with caplog.at_level(logging.INFO):
        store.refresh()
        assert "is left out until it answers again: no answer within 1 seconds" in caplog.text
        # Meanwhile the cell is not said to answer, though it is probed.
        assert "answers again\n" not in caplog.text.replace("until it answers again", "")
        nova.add_host("cmp2")

        def both_known():
            return len(store.refresh()) == 2

        assert eventually(both_known, 20)
        assert f"Cell cell1 ({nova.cell1}) answers again" in caplog.text
    assert eventually(lambda: not cell_threads())


def test_an_api_database_that_is_stopped_costs_one_timeout(nova, backends):
    with nova.engines.api_connection() as connection:
        connection.execute(sa.text("SELECT 1"))
    cells = Cells(nova.engines, nova.conf)
    assert backends(nova.conf.api_database.connection)
    begun = time.monotonic()
    for _ in range(20):
        cells.load()
    assert time.monotonic() - begun < 4 * TIMEOUT
    assert eventually(cells.load, 20)
