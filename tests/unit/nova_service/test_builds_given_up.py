"""The builds that conductors gave up are found, each once, by the first scheduler."""

from datetime import timedelta

import pytest

from scheduler.nova_db.schema import instances, utcnow
from scheduler.nova_service import first_scheduler
from scheduler.nova_service.first_scheduler import LOOKBACK, FirstScheduler
from scheduler.nova_service.service_record import OwnService

LONG_AGO = utcnow() - timedelta(hours=2)


@pytest.fixture
def cell0(nova):
    """A function that adds an instance to cell0; its UUID."""
    nova.add_cell0()

    def add(uuid, **columns):
        values = {"created_at": utcnow(), "vm_state": "error"} | columns
        nova.insert(instances, cell=first_scheduler.CELL0, uuid=uuid, **values)

    return add


@pytest.fixture
def builds(nova):
    return FirstScheduler(nova.conf, nova.engines, OwnService(nova.conf, nova.engines).leads)


@pytest.fixture
def leading(nova, builds):
    nova.add_service("controller", binary="nova-scheduler")
    return builds


def test_each_build_is_found_once(cell0, leading):
    cell0("a")
    assert leading.builds_given_up() == {"a"}
    cell0("b")
    assert leading.builds_given_up() == {"b"}
    assert not any(leading.builds_given_up() for _ in range(3))


ROWS = {
    "whose request is old": ({"created_at": LONG_AGO}, False),
    "whose conductor waited for half an hour": ({"created_at": utcnow() - timedelta(minutes=35)}, True),
    "that was deleted": ({"deleted": 5}, False),
    "that has a host, as cell0 is also the database of a cell": ({"host": "h1"}, False),
}


@pytest.mark.parametrize(("columns", "found"), ROWS.values(), ids=ROWS)
def test_a_build(cell0, leading, columns, found):
    cell0("a", **columns)
    assert leading.builds_given_up() == ({"a"} if found else set())


def test_a_build_whose_request_is_old_is_found_if_it_is_given_up_now(cell0, leading):
    cell0("a")
    leading.builds_given_up()
    leading.builds_given_up()
    cell0("b", created_at=utcnow() - timedelta(seconds=2 * LOOKBACK))
    assert leading.builds_given_up() == {"b"}


def test_a_row_that_is_committed_after_one_with_a_higher_id_is_found(cell0, leading):
    cell0("a", id=100)
    leading.builds_given_up()
    cell0("c", id=102)
    leading.builds_given_up()
    cell0("b", id=101)
    assert leading.builds_given_up() == {"b"}


def test_of_many_builds_each_is_found(cell0, leading, monkeypatch):
    monkeypatch.setattr(first_scheduler, "MOST", 3)
    for number in range(10):
        cell0(f"i{number}")
    found = [uuid for _ in range(10) for uuid in leading.builds_given_up()]
    assert sorted(found) == [f"i{number}" for number in range(10)]


def test_another_scheduler_looks(nova, cell0, leading):
    cell0("a")
    assert leading.builds_given_up() == {"a"}
    nova.add_service("another", binary="nova-scheduler")
    assert leading.builds_given_up() == ()


def test_a_scheduler_that_becomes_the_first_one_begins_anew(nova, cell0, builds):
    cell0("a")
    assert builds.builds_given_up() == ()
    nova.add_service("controller", binary="nova-scheduler")
    assert builds.builds_given_up() == {"a"}


def test_without_cell0_nothing_is_found(leading):
    assert not leading.builds_given_up()


def test_a_database_that_is_away_is_logged_once_and_no_build_is_lost(nova, cell0, leading, caplog):
    cell0("a")
    url = nova.conf.api_database.connection
    nova.conf.set_override("connection", "sqlite:////no/such/directory/x.db", "api_database")
    assert [leading.builds_given_up() for _ in range(3)] == [(), (), ()]
    assert caplog.text.count("Cannot read the builds in cell0") == 1
    nova.conf.set_override("connection", url, "api_database")
    assert leading.builds_given_up() == {"a"}
