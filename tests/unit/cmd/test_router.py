import inspect

import pytest

from scheduler.cmd import router
from scheduler.manager import SchedulerManager
from scheduler.router.service import RouterService
from tests.support.options import make_conf

SECTION = "[berth_partition_a]\naggregates = a\n"


@pytest.fixture
def check(tmp_path, capfd):
    """Check options of a router; returns the status and what is printed."""

    def check(text):
        path = tmp_path / "nova.conf"
        path.write_text(f"[DEFAULT]\ntransport_url = rabbit://u:p@127.0.0.1/\n{text}")
        status = router.main(["--config-file", str(path), "--check-config"])
        return status, "".join(capfd.readouterr())

    return check


def test_a_router_needs_no_database(check):
    status, printed = check(SECTION)
    assert (status, "The configuration can be used" in printed) == (0, True)


def test_a_router_without_partitions_does_not_start(check):
    status, printed = check("")
    assert (status, "There is no partition to call" in printed) == (1, True)


@pytest.mark.parametrize(
    "name",
    ["start", "wait_until_ready", "catch_up", "wait_until_able", "reset", "stop_claiming", "stop"],
)
def test_the_daemon_can_call_a_router_as_it_calls_a_scheduler(name):
    expected = inspect.signature(getattr(SchedulerManager, name))
    assert inspect.signature(getattr(RouterService, name)) == expected


def test_a_router_is_ready_without_a_database_and_placement():
    parts = router.parts(None)
    assert parts.manager is RouterService
    assert list(parts.periodics(make_conf(), None)) == []
    state = parts.read_state(None, None)
    assert (state.api_database, state.placement, state.broker) == (True, True, None)
