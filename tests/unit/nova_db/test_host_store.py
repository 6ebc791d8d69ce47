import contextlib
from datetime import timedelta
from functools import partial
import logging
import socket
import threading
import time

import pytest
import sqlalchemy as sa

from scheduler.bounds.deadline import Deadline, limit_to
from scheduler.hosts.aggregates import Aggregates, HostAggregate
from scheduler.hosts.host_state import service_map
from scheduler.nova_db.api_reader import ApiReader
from scheduler.nova_db.cells import Cells
from scheduler.nova_db.change_tracking import CellTracker
from scheduler.nova_db.host_mappings import HostMappings
from scheduler.nova_db.host_reader import REREAD_INTERVAL, HostReader
from scheduler.nova_db.host_store import FOREIGN_TTL, HostStore
from scheduler.nova_db.partition_hosts import PartitionHosts
from scheduler.nova_db.row_loader import RowLoader
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import cell_mappings, compute_nodes, services, utcnow
from tests.support.waiting import eventually

LOG = logging.getLogger(__name__)

UNREAD_MAX_AGE = 300.0


class Stores:
    """A store over nova's databases, with its parts. Its clock moves on by itself, and as tests say."""

    def __init__(self, nova, max_age=1000.0, timeout=10.0, unread_max_age=UNREAD_MAX_AGE):
        self.ahead = 0.0
        self.cells = Cells(nova.engines, nova.conf)
        self.calls = CellCalls(lambda: timeout)
        self.api = self.source = ApiReader(nova.engines, self.cells, HostMappings(nova.engines))
        partition = PartitionHosts(None, lambda: self.source.aggregates)
        self.reader = HostReader(
            self.cells,
            self.calls,
            partial(CellTracker, loader=RowLoader(nova.conf), clock=self.clock),
            partition,
            unread_max_age=lambda: unread_max_age,
            clock=self.clock,
        )
        self.store = HostStore(self.reader, partition, max_age=lambda: max_age, clock=self.clock)
        self.reads = 0
        refresh = self.store.refresh

        def counted(*not_before):
            self.reads += 1
            self.api.read()
            return refresh(*not_before)

        self.store.refresh = counted

    def clock(self):
        return time.monotonic() + self.ahead


@pytest.fixture
def stores(nova):
    stores = Stores(nova)
    yield stores
    stores.store.stop()


@contextlib.contextmanager
def unreadable(nova):
    """cell1 without its table."""
    with nova.cells[nova.cell1].begin() as connection:
        connection.execute(sa.text("ALTER TABLE compute_nodes RENAME TO elsewhere"))
    yield
    with nova.cells[nova.cell1].begin() as connection:
        connection.execute(sa.text("ALTER TABLE elsewhere RENAME TO compute_nodes"))


def hosts_of(table):
    return sorted(row.host for row in table.rows)


def test_the_first_request_waits_for_the_first_table(nova, stores):
    nova.add_host("cmp1")
    stores.store.start()
    assert hosts_of(stores.store.snapshot()) == ["cmp1"]


def test_requests_share_a_table_that_is_not_too_old(nova, stores):
    stores.store.start()
    first = stores.store.snapshot()
    nova.add_host("cmp1")
    assert stores.store.snapshot() is first
    assert stores.reads == 1


def test_with_an_age_of_zero_each_request_reads(nova, stores):
    stores.store.start()
    for number in range(3):
        nova.add_host(f"cmp{number}")
        asked = time.monotonic()
        table = stores.store.snapshot(0)
        assert len(table) == number + 1
        assert table.read_at >= asked


def test_a_table_that_was_read_after_the_request_arrived_is_used_without_a_wait(stores):
    stores.store.start()
    arrived_at = time.monotonic()
    read = stores.store.snapshot(0)
    reads = stores.reads
    assert stores.store.snapshot(0, arrived_at) is read
    assert stores.reads == reads


def test_a_request_that_says_to_come_from_the_future_gets_a_table_of_now(stores, caplog):
    stores.store.start()
    asked = time.monotonic()
    assert stores.store.snapshot(0, asked + 1e6).read_at >= asked
    assert "timed out" not in caplog.text
    reads = stores.reads
    stores.store.snapshot()
    assert stores.reads == reads


def test_a_request_waits_for_a_table_until_its_deadline(stores, caplog):
    """Nothing reads here. That one request has no time left says nothing of the databases."""
    with limit_to(Deadline.after(0.01)):
        assert len(stores.store.snapshot(0)) == 0
    assert "timed out" not in caplog.text


def test_reading_begins_before_a_request_waits_for_it(nova):
    stores = Stores(nova, max_age=0.0)
    stores.store.start()
    try:
        stores.store.snapshot()
        nova.add_host("cmp1")
        arrived_at = time.monotonic()
        stores.store.begin_reading(0.0)
        assert eventually(lambda: len(stores.store.snapshot(1000)) == 1)
        reads = stores.reads
        assert hosts_of(stores.store.snapshot(0, arrived_at)) == ["cmp1"]
        assert stores.reads == reads
    finally:
        stores.store.stop()


def test_requests_of_a_burst_share_readings(stores):
    stores.store.start()
    stores.store.snapshot()
    asked = time.monotonic()
    ages = []
    threads = [
        threading.Thread(target=lambda: ages.append(stores.store.snapshot(0).read_at)) for _ in range(40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(ages) == 40
    assert min(ages) >= asked
    assert stores.reads < 40


def test_a_table_past_half_its_age_is_refreshed_behind_the_request(nova, stores):
    stores.store.start()
    first = stores.store.snapshot()
    stores.ahead += 600
    nova.add_host("cmp1")
    assert stores.store.snapshot() is first
    assert eventually(lambda: hosts_of(stores.store.snapshot()) == ["cmp1"])


def test_with_many_requests_a_table_is_refreshed_shortly_before_it_is_too_old(stores):
    """So the databases are read about once in its age."""
    stores.store.start()
    first = stores.store.snapshot()
    for _ in range(90):
        stores.ahead += 10
        assert stores.store.snapshot() is first
    assert stores.reads == 1
    stores.ahead += 80
    assert stores.store.snapshot() is first
    assert eventually(lambda: stores.store.snapshot() is not first)


def test_disabled_cells_are_read_and_marked(nova, stores):
    other = nova.add_cell("cell2", disabled=True)
    uuid = nova.add_host("cmp1", cell=other)
    table = stores.store.refresh()
    assert list(table.find([uuid])) == []
    assert list(table.find([uuid], other)) == [0]


@pytest.mark.parametrize(
    "url", ["mysql+pymysql://nova@127.0.0.1:1/nova", "nonsense", "sqlite:////no/such/directory/x.db", None]
)
def test_without_a_cell_only_its_hosts_are_missing(nova, stores, caplog, url):
    nova.insert_api(cell_mappings, uuid="c2", name="cell2", database_connection=url)
    nova.add_host("cmp1")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert hosts_of(stores.store.refresh()) == ["cmp1"]
    assert caplog.text.count("ERROR") == 1
    assert "cell2" in caplog.text


def test_if_a_cell_never_answers_only_its_hosts_are_missing(nova, caplog):
    """A server that takes connections and says nothing."""
    nova.add_host("cmp1")
    nova.conf.set_override("cell_timeout", 0.5, "berth")
    stores = Stores(nova, timeout=0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"mysql+pymysql://nova:nova@127.0.0.1:{silent.getsockname()[1]}/nova"
        nova.insert_api(cell_mappings, uuid="c2", name="cell2", database_connection=url)
        for _ in range(3):
            assert hosts_of(stores.store.refresh()) == ["cmp1"]
    assert caplog.text.count("no answer within 0.5 seconds") == 1


def test_after_an_outage_of_the_api_database_the_cells_are_read(nova, stores):
    nova.add_host("cmp1")
    connection = nova.conf.api_database.connection
    nova.conf.set_override("connection", "sqlite:////no/such/directory/x.db", "api_database")
    assert len(stores.store.refresh()) == 0
    nova.conf.set_override("connection", connection, "api_database")
    stores.ahead += 60
    assert hosts_of(stores.store.refresh()) == ["cmp1"]


def test_hosts_of_a_cell_that_went_away_are_kept_for_a_while_and_the_cell_is_named_then(nova, stores):
    def read():
        table = stores.store.refresh()
        return hosts_of(table), table.unread_cells

    nova.add_host("cmp1")
    with unreadable(nova):
        assert read() == ([], {nova.cell1})
    assert read() == (["cmp1"], frozenset())
    with unreadable(nova):
        assert read() == (["cmp1"], frozenset())
        stores.ahead += UNREAD_MAX_AGE
        assert read() == ([], {nova.cell1})
    assert read() == (["cmp1"], frozenset())


def test_a_cell_that_cannot_be_read_is_reported_when_it_goes_and_when_it_is_back(nova, stores, caplog):
    caplog.set_level(logging.INFO)
    with unreadable(nova):
        for _ in range(3):
            stores.store.refresh()
    for _ in range(3):
        stores.store.refresh()
    assert [message.partition(": ")[0] for message in caplog.messages] == [
        f"Cannot read the hosts of cell cell1 ({nova.cell1})",
        f"Hosts of cell cell1 ({nova.cell1}) are read again",
    ]


def test_other_aggregates_show_in_the_next_request_without_reading_hosts(nova, stores):
    nova.add_host("cmp1")
    stores.store.start()
    stores.store.snapshot()
    stores.api.aggregates = Aggregates([HostAggregate(1, "u", "n", frozenset({"cmp1"}))])
    table = stores.store.snapshot()
    assert [len(found) for found in table.coded["aggregates"]] == [1]
    assert stores.store.snapshot() is table
    assert stores.reads == 1


def test_a_node_that_the_table_lacks_is_looked_for(nova, stores):
    known = nova.add_host("cmp1")
    stores.store.start()
    table = stores.store.snapshot()
    assert stores.store.complete(table, [known]) is table
    new = nova.add_host("cmp2")
    completed = stores.store.complete(table, [known, new])
    assert set(completed.row_of_uuid) == {known, new}


def test_foreign_providers_are_not_looked_for_again_at_once(stores, caplog):
    caplog.set_level("INFO")
    stores.store.start()
    table = stores.store.snapshot()
    for _ in range(2):
        assert stores.store.complete(table, ["nested", "foreign"]) is table
    assert stores.reads == 2
    assert (
        caplog.text.count("Resource providers in Placement that are not compute nodes: 2, such as nested")
        == 1
    )
    stores.store.clear_foreign_providers()
    stores.store.complete(table, ["nested"])
    assert stores.reads == 3


def test_the_provider_of_a_host_without_a_service_is_not_foreign(nova, stores, caplog):
    caplog.set_level("INFO")
    nova.add_host("cmp1")
    lost = nova.add_host("cmp2")
    stores.store.start()
    stores.store.snapshot()
    nova.update(services, services.c.host == "cmp2", deleted=1)
    for _ in range(3):
        stores.store.complete(stores.store.snapshot(0), [lost])
    (line,) = [record for record in caplog.records if "cmp2" in record.getMessage()]
    assert line.levelname == "WARNING"
    assert line.getMessage() == (
        f"Host cmp2 has no compute service record and gets no instances (compute node {lost})"
    )
    assert "not compute nodes" not in caplog.text
    assert hosts_of(stores.store.snapshot(0)) == ["cmp1"]


def test_foreign_providers_are_reported_once_however_often_they_are_looked_for(stores, caplog):
    caplog.set_level("INFO")
    stores.store.start()
    table = stores.store.snapshot()
    for uuids in (["nested"], ["nested"], ["nested", "foreign"]):
        stores.ahead += FOREIGN_TTL + 1
        stores.store.complete(table, uuids)
    assert caplog.text.count("such as nested") == 1
    assert caplog.text.count("not compute nodes: 1, such as foreign") == 1


@pytest.mark.parametrize("changes", [{"disabled": True}, {"name": "renamed"}], ids=["disabled", "renamed"])
def test_hosts_are_kept_of_a_cell_that_is_disabled_or_renamed_while_it_is_away(nova, stores, changes):
    nova.add_host("cmp1")
    stores.store.refresh()
    with unreadable(nova):
        with nova.engines.api().begin() as connection:
            connection.execute(sa.update(cell_mappings).values(**changes))
        stores.cells.load()
        table = stores.store.refresh()
    assert (hosts_of(table), table.unread_cells) == (["cmp1"], frozenset())
    assert (nova.cell1 in table.disabled_cells) == ("disabled" in changes)


def test_hosts_of_a_cell_that_is_away_are_not_called_foreign(nova, stores, caplog):
    caplog.set_level("INFO")
    stores.store.start()
    table = stores.store.snapshot()
    nova.add_cell("away", reachable=False)
    stores.cells.load()
    stores.store.complete(table, ["there"])
    assert "not compute nodes" not in caplog.text


def test_what_was_not_read_in_time_is_not_called_foreign(nova, caplog):
    caplog.set_level("INFO")
    stores, go_on = Stores(nova, timeout=0.01), threading.Event()
    stores.store.start()
    try:
        table = stores.store.snapshot()
        stores.store.refresh = go_on.wait
        assert stores.store.complete(table, ["there"]) is table
    finally:
        go_on.set()
        stores.store.stop()
    assert "Reading the hosts timed out" in caplog.text
    assert "not compute nodes" not in caplog.text


def test_a_node_that_cannot_be_used_is_foreign(nova, stores):
    useless = nova.add_host("cmp1", service=False)
    stores.store.start()
    table = stores.store.snapshot()
    stores.store.complete(table, [useless])
    reads = stores.reads
    stores.store.complete(table, [useless])
    assert stores.reads == reads


def test_a_reading_that_finds_no_change_gives_the_same_table_of_a_later_time(nova, stores):
    nova.add_host("cmp1")
    first = stores.store.refresh()
    again = stores.store.refresh()
    assert again.rows is first.rows
    assert again.read_at > first.read_at
    nova.update(services, services.c.host == "cmp1", disabled=True)
    changed = stores.store.refresh()
    assert (list(again.numbers["service_disabled"]), list(changed.numbers["service_disabled"])) == (
        [False],
        [True],
    )
    with nova.engines.api().begin() as connection:
        connection.execute(sa.update(cell_mappings).values(disabled=True))
    stores.cells.load()
    assert list(stores.store.refresh().cell_enabled) == [False]


def test_a_cell_with_another_url_is_read_anew(nova, stores):
    nova.add_host("cmp1")
    stores.store.refresh()
    moved = nova.make_database("moved")
    other = nova.engines.cell("moved", moved)
    compute_nodes.metadata.create_all(other)
    with nova.engines.api().begin() as connection:
        connection.execute(sa.text("UPDATE cell_mappings SET database_connection = :url"), {"url": moved})
    stores.cells.load()
    assert len(stores.store.refresh()) == 0


def test_after_an_error_the_writer_goes_on(nova, stores, caplog):
    nova.add_host("cmp1")
    read = stores.api.read
    failures = iter([ZeroDivisionError, None])

    def sometimes():
        if next(failures, None):
            raise ZeroDivisionError
        return read()

    stores.api.read = sometimes
    stores.store.start()
    assert hosts_of(stores.store.snapshot()) == ["cmp1"]
    assert "ZeroDivisionError" in caplog.text


def test_a_stopped_store_answers_at_once(stores):
    stores.store.stop()
    assert len(stores.store.snapshot(0)) == 0


def test_without_patience_only_cells_that_cannot_be_read_are_missing(nova):
    stores = Stores(nova, unread_max_age=0.0)
    nova.add_host("cmp1")
    assert hosts_of(stores.store.refresh()) == ["cmp1"]
    with unreadable(nova):
        table = stores.store.refresh()
        assert (hosts_of(table), table.unread_cells) == ([], {nova.cell1})
    assert stores.store.refresh().unread_cells == frozenset()


@pytest.mark.parametrize("age", [0, 40])
def test_services_of_a_cell_that_cannot_be_read_stay_as_alive_as_they_were(nova, stores, age):
    nova.add_host("cmp1", service={"last_seen_up": utcnow() - timedelta(seconds=age)})

    def seen(table):
        return service_map(table.services[0], table.seen_since)["last_seen_up"]

    before = seen(stores.store.refresh())
    with unreadable(nova):
        stores.ahead += 100
        table = stores.store.refresh()
        assert (seen(table) - before).total_seconds() >= 60
        assert stores.store.refresh().services[0] is table.services[0]
    assert stores.store.refresh().services[0].last_seen_up == before.replace(tzinfo=None)


def test_a_cell_that_was_left_out_is_read_again_for_a_request_that_needs_it(nova, stores):
    nova.add_host("cmp1")
    with unreadable(nova):
        stores.store.start()
        assert stores.store.snapshot(0).unread_cells == {nova.cell1}
        cells = stores.cells.all
        assert stores.reader.reread(cells) == list(cells)
    stores.ahead += REREAD_INTERVAL
    assert stores.reader.reread(cells) == []
    assert hosts_of(stores.store.snapshot(0)) == ["cmp1"]


def test_requests_share_an_attempt_to_read_a_cell_again(nova, stores, monkeypatch):
    with unreadable(nova):
        stores.store.refresh()
        cells = stores.cells.all
        attempts = []
        scatter_gather = stores.calls.scatter_gather
        monkeypatch.setattr(
            stores.calls,
            "scatter_gather",
            lambda *args, **options: attempts.append(1) or scatter_gather(*args, **options),
        )
        for _ in range(5):
            assert stores.reader.reread(cells) == list(cells)
    assert len(attempts) == 1


def test_how_long_ago_each_cell_was_read(nova, stores):
    def readings():
        stores.store.refresh()
        found = {each.cell.uuid: each for each in stores.reader.cell_readings()}
        assert found.keys() == nova.cells.keys()
        return found.pop(nova.cell1), list(found.values())

    with unreadable(nova):
        never, _ = readings()
        assert (never.usable, never.age) == (False, None)
    readings()
    with unreadable(nova):
        stores.ahead += 100.0
        lost, others = readings()
        assert (lost.usable, lost.age >= 100.0) == (True, True)
        assert all(each.usable and each.age < 100.0 for each in others)
        stores.ahead += UNREAD_MAX_AGE
        assert not any(each.usable for each in stores.reader.cell_readings())


def test_a_table_that_is_late_however_slow_the_databases_are_is_overdue(stores):
    assert stores.store.overdue() == 0.0, "not started"
    stores.store.start()
    stores.store.snapshot(0)
    assert stores.store.overdue() == 0.0
    stores.store.stop()
    stores.ahead += 1000.0
    assert stores.store.overdue() > 900.0


class AggregatesThatFailOnce:
    """In place of an ``ApiReader``: its aggregates, after an error."""

    def __init__(self, store):
        self._store = store
        self._failures = iter([MemoryError()])

    @property
    def aggregates(self):
        for error in self._failures:
            raise error
        return self._store.aggregates


def test_hosts_are_not_missed_whose_table_could_not_be_made(nova, stores):
    stores.store.refresh()
    nova.add_host("cmp1")
    stores.source = AggregatesThatFailOnce(stores.api)
    with pytest.raises(MemoryError):
        stores.store.refresh()
    assert hosts_of(stores.store.refresh()) == ["cmp1"]
