import pytest

from conductor_client import journal
from conductor_client.cells import Cell, client_of_each_cell
from conductor_client.super_conductor import SuperConductor
from scheduler import errors
from tests.unit.conductor_client.doubles import Recorder, context, make_selection, make_spec

CELLS = {name: Cell(f"uuid {name}", name, f"fake://{name}") for name in ("one", "two")}


class Scheduler:
    def __init__(self, answer):
        self.answer = answer

    def select_destinations(self, *_args, **_arguments):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class CellMap:
    """Host a1 is in cell one, b2 in cell two; others in none."""

    def of_host(self, host):
        return {"1": CELLS["one"], "2": CELLS["two"]}.get(host[-1])


def boot(answer, uuids, recorders=None):
    recorders = recorders or {"one": Recorder(), "two": Recorder()}
    conductor = SuperConductor(
        Scheduler(answer), CellMap(), lambda cell: recorders[cell.name], journal.Journal()
    )
    conductor.build_instances(context(), make_spec(), uuids)
    return conductor, recorders


def test_instances_are_handed_over_to_the_cell_of_their_host():
    lists = [[make_selection("a1"), make_selection("b1")], [make_selection("a2")], [make_selection("c1")]]
    _conductor, recorders = boot(lists, ["i", "j", "k"])
    sent = {name: recorder.casts for name, recorder in recorders.items()}
    ((method, first),) = sent["one"]
    ((_method, second),) = sent["two"]
    assert method == "start_builds"
    assert first["host_lists"] == {"i": lists[0], "k": lists[2]}
    assert second["host_lists"] == {"j": lists[1]}


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (errors.NoValidHost("Full."), "No valid host was found. Full."),
        (RuntimeError("broken"), "broken"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_any_error_of_the_scheduler_buries_the_batch(error, detail):
    conductor, recorders = boot(error, ["i", "j"])
    for record in conductor.journal.records(["i", "j"]):
        assert (record.state, record.last.detail) == (journal.ERROR, detail)
    assert not any(recorder.casts for recorder in recorders.values())


def test_a_host_without_cell_buries_only_its_own_instance():
    conductor, recorders = boot([[make_selection("nowhere")], [make_selection("a1")]], ["i", "j"])
    lost, kept = conductor.journal.records(["i", "j"])
    assert (lost.state, lost.last.detail) == (journal.ERROR, "Host nowhere is not mapped to any cell")
    assert kept.state == journal.SCHEDULING
    assert len(recorders["one"].casts) == 1


def test_a_cell_that_cannot_be_reached_does_not_harm_the_others():
    recorders = {"one": Recorder(OSError("no route")), "two": Recorder()}
    conductor, _ = boot([[make_selection("a1")], [make_selection("a2")]], ["i", "j"], recorders)
    lost, kept = conductor.journal.records(["i", "j"])
    assert (lost.state, lost.last.detail, lost.last.cell) == (journal.ERROR, "no route", "one")
    assert kept.state == journal.SCHEDULING
    assert len(recorders["two"].casts) == 1


def test_stories_can_be_read_and_written_remotely():
    conductor, _ = boot([[make_selection("a1")]], ["i"])
    conductor.report(context(), {"instance_uuid": "i", "state": journal.ACTIVE, "host": "a1"})
    (story,) = conductor.list_instances(context(), ["i"])
    assert [event["state"] for event in story] == [journal.SCHEDULING, journal.SCHEDULING, journal.ACTIVE]
    assert story[1]["took"] >= 0
    assert conductor.list_instances(context()) == [story]


def test_each_cells_bus_is_opened_once():
    opened = []

    class Bus:
        def client(self, *_args):
            return Recorder()

    def open_bus(cell):
        opened.append(cell.name)
        return Bus()

    clients = client_of_each_cell(open_bus, journal.TOPIC)
    assert clients(CELLS["one"]) is clients(CELLS["one"])
    clients(CELLS["two"])
    assert opened == ["one", "two"]
