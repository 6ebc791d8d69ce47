"""Database servers that hang: their processes are stopped, as by SIGSTOP or a dead disk."""

import contextlib
from functools import partial
import logging
import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from scheduler.errors import HostsUnknown
from scheduler.hosts.aggregates import Aggregates
from scheduler.nova_db.api_reader import ApiReader
from scheduler.nova_db.cells import Cells
from scheduler.nova_db.change_tracking import CellTracker
from scheduler.nova_db.host_mappings import HostMappings
from scheduler.nova_db.host_reader import HostReader
from scheduler.nova_db.host_store import HostStore
from scheduler.nova_db.inventory import HostInventory
from scheduler.nova_db.partition_hosts import PartitionHosts
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
    cells.load()
    partition = PartitionHosts(None, Aggregates)
    tracker = partial(CellTracker, loader=RowLoader(nova.conf))
    reader = HostReader(cells, CellCalls(lambda: TIMEOUT), tracker, partition)
    store = HostStore(reader, partition, max_age=lambda: 0.0)
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
        assert "is unavailable; skipping it until it answers: no answer within 1 seconds" in caplog.text
        # Meanwhile the cell is not said to answer, though it is probed.
        assert "is available again" not in caplog.text
        nova.add_host("cmp2")

        def both_known():
            return len(store.refresh()) == 2

        assert eventually(both_known, 20)
        assert f"Cell cell1 ({nova.cell1}) is available again" in caplog.text
    assert eventually(lambda: not cell_threads())


def test_an_api_database_that_is_stopped_costs_one_timeout(nova, backends):
    with nova.engines.api_connection() as connection:
        connection.execute(sa.text("SELECT 1"))
    api = ApiReader(nova.engines, Cells(nova.engines, nova.conf), HostMappings(nova.engines))
    assert backends(nova.conf.api_database.connection)
    begun = time.monotonic()
    for _ in range(20):
        api.read()
    assert time.monotonic() - begun < 4 * TIMEOUT
    assert eventually(api.read, 20)


def test_after_an_outage_the_first_request_finds_its_host(nova):
    """The cell is left out, and its hosts are too old to be used."""
    nova.conf.set_override("unread_cell_max_age", 0.5, "berth")
    nova.add_host("cmp1")
    inventory = HostInventory(nova.conf)
    inventory.start()
    try:
        wanted = SimpleNamespace(host="cmp1", node=None, cell_uuid=None)
        assert [found.host for found in inventory.find_nodes(wanted)] == ["cmp1"]
        server = sa.make_url(nova.conf.database.connection)
        no_more = f'ALTER DATABASE "{server.database}" ALLOW_CONNECTIONS false'
        again = f'ALTER DATABASE "{server.database}" ALLOW_CONNECTIONS true'
        end_all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
        admin = sa.create_engine(
            server.set(database="postgres"), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool
        )
        with admin.connect() as connection:
            connection.execute(sa.text(no_more))
            connection.execute(sa.text(end_all), {"name": server.database})
        try:
            assert eventually(lambda: nova.cell1 in inventory.snapshot(0).unread_cells, 20)
            with pytest.raises(HostsUnknown, match="cell1"):
                inventory.find_nodes(wanted)
        finally:
            with admin.connect() as connection:
                connection.execute(sa.text(again))
        time.sleep(1.1)
        assert [found.host for found in inventory.find_nodes(wanted)] == ["cmp1"]
    finally:
        inventory.stop()
