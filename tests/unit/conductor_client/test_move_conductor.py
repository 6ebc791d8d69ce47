"""What the scheduler is asked for moves, and what becomes of errors; test_moves.py has the rest."""

import pytest

from conductor_client import journal
from conductor_client.cells import Cell
from conductor_client.move_conductor import MoveConductor
from scheduler import errors
from tests.unit.conductor_client.doubles import (
    CELL,
    Allocations,
    Recorder,
    context,
    make_selection,
    make_spec,
)


class Cells:
    """All hosts but those that begin with x are in one cell."""

    def of_host(self, host):
        return None if host.startswith("x") else Cell(CELL, "one", "fake://")


class Scheduler:
    """Answers with hosts b and c, or raises an error."""

    def __init__(self, error=None):
        self.error = error
        self.asked = []

    def select_destinations(self, _context, spec, uuids, return_alternates=False):
        self.asked.append((spec, uuids, return_alternates))
        if self.error:
            raise self.error
        return [[make_selection(host) for host in ("bc" if return_alternates else "b")]]


class Compute(Recorder):
    """Can have any instance."""

    def call(self, *_args, **_arguments):
        return None


def move(method, error=None, host="s"):
    """Move an instance that holds its host; return what was asked for, the casts, allocations and record."""
    scheduler, compute, allocations, book = Scheduler(error), Compute(), Allocations(), journal.Journal()
    allocations.held = {"i": host} if method != "unshelve_instance" else {}
    conductor = MoveConductor(scheduler, Cells(), lambda _cell: compute, allocations, book, 3)
    spec = make_spec(force_hosts=["s"], force_nodes=["s"], num_instances=2)
    move = {"instance_uuid": "i", "migration_uuid": "m", "request_spec": spec, "host": host}
    getattr(conductor, method)(context(), **move)
    (record,) = book.records()
    assert record.instance_uuid == "m"
    return scheduler.asked, compute.casts, allocations.held, record


@pytest.mark.parametrize(
    ("method", "cast", "ignored", "alternates", "held"),
    [
        ("resize_instance", "prep_resize", ["s"], True, {"m": "s"}),
        ("live_migrate_instance", "live_migration", ["s"], False, {"m": "s"}),
        ("rebuild_instance", "rebuild_instance", ["s"], False, {"i": "s"}),
        ("unshelve_instance", "unshelve_instance", None, False, {}),
    ],
)
def test_what_is_asked_for(method, cast, ignored, alternates, held):
    ((spec, uuids, with_alternates),), ((sent, arguments),), after, record = move(method)
    assert (uuids, spec.instance_uuid, spec.num_instances) == (["i"], "i", 1)
    assert (spec.ignore_hosts, spec.force_hosts, spec.force_nodes) == (ignored, None, None)
    destination = spec.requested_destination
    assert (destination.cell.uuid, destination.allow_cross_cell_move) == (CELL, False)
    assert with_alternates is alternates
    assert (sent, arguments["host"], arguments["migration_uuid"]) == (cast, "b", "m")
    assert [one.service_host for one in arguments.get("host_list", ())] == ["c"] * alternates
    assert after == held
    assert (record.state, record.attempts) == (journal.BUILDING, 1)


@pytest.mark.parametrize("method", ["resize_instance", "live_migrate_instance", "rebuild_instance"])
@pytest.mark.parametrize(("error", "host"), [(errors.NoValidHost("Full."), "s"), (None, "x")])
def test_after_an_error_the_instance_holds_what_it_held(method, error, host):
    _, casts, held, record = move(method, error, host)
    assert (casts, held) == ([], {"i": host})
    assert record.state == journal.ERROR
    assert record.last.detail.startswith("No valid host was found.")
