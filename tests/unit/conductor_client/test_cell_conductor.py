import pytest

from conductor_client import journal, retries
from conductor_client.cell_conductor import CellConductor
from conductor_client.journal import Journal
from scheduler import errors
from tests.unit.conductor_client.doubles import Allocations, Recorder, context, make_selection, make_spec


@pytest.fixture
def compute():
    return Recorder()


@pytest.fixture
def book():
    return Journal()


def conductor(compute, book, allocations=None, max_attempts=3):
    return CellConductor(compute, allocations or Allocations(), book, max_attempts)


def failed_once():
    return retries.on_host(retries.first(make_spec(), 3), make_selection("a"))


def retry(compute, book, alternates, allocations=None, properties=None):
    made = conductor(compute, book, allocations)
    made.build_instances(context(), ["i"], [alternates], make_spec(), properties or failed_once())


def test_first_builds_need_no_claim(compute, book):
    allocations = Allocations()
    lists = {"i": [make_selection("a"), make_selection("b")], "j": [make_selection("b")]}
    conductor(compute, book, allocations).start_builds(context(), make_spec(), lists)
    assert allocations.held == {}
    (method, first), (_, second) = compute.casts
    assert method == "build_and_run_instance"
    assert (first["instance_uuid"], first["host"], first["node"]) == ("i", "a", "a.example.net")
    assert [one.service_host for one in first["host_list"]] == ["b"]
    assert first["filter_properties"]["retry"] == {"num_attempts": 1, "hosts": [["a", "a.example.net"]]}
    assert (second["host"], second["host_list"]) == ("b", [])


def test_the_only_attempt_has_no_retry(compute, book):
    conductor(compute, book, max_attempts=1).start_builds(
        context(), make_spec(), {"i": [make_selection("a")]}
    )
    assert "retry" not in compute.casts[0][1]["filter_properties"]


@pytest.mark.parametrize(
    ("full", "host", "rest"),
    [
        ([], "b", ["c", "d"]),
        (["b"], "c", ["d"]),
        (["b", "c"], "d", []),
    ],
)
def test_the_next_alternate_that_can_be_claimed(compute, book, full, host, rest):
    allocations = Allocations(full)
    retry(compute, book, [make_selection(name) for name in "bcd"], allocations)
    ((_, sent),) = compute.casts
    assert sent["host"] == host
    assert [one.service_host for one in sent["host_list"]] == rest
    assert allocations.held == {"i": host}
    assert sent["filter_properties"]["retry"]["num_attempts"] == 2
    (record,) = book.records()
    assert [event.host for event in record.events if event.state == journal.REFUSED] == full


def test_refused_everywhere(compute, book):
    retry(compute, book, [make_selection("b")], Allocations(["b"]))
    (record,) = book.records()
    assert record.state == journal.ERROR
    assert "No alternate host is left" in record.last.detail
    assert compute.casts == []


def test_no_alternates_at_all(compute, book):
    retry(compute, book, [])
    assert book.records()[0].state == journal.ERROR


def test_as_many_attempts_as_allowed(compute, book):
    properties = retries.again(retries.again(failed_once(), 3), 3)
    retry(compute, book, [make_selection("b")], properties=properties)
    (record,) = book.records()
    assert record.state == journal.ERROR
    assert "All 3 attempts" in record.last.detail


def test_a_claim_that_fails_badly_ends_the_build(compute, book):
    allocations = Allocations(error=errors.AllocationUpdateFailed("i", "changed"))
    retry(compute, book, [make_selection("b"), make_selection("c")], allocations)
    (record,) = book.records()
    assert (record.state, record.last.detail) == (journal.ERROR, str(allocations.error))


def resize_again(compute, book, alternates, allocations):
    """Retry a resize from host s whose first host has failed: its compute has moved the allocation back."""
    allocations.held["i"] = "s"
    spec = make_spec(instance_uuid="i")
    moved = {"instance_uuid": "i", "migration_uuid": "m", "request_spec": spec, "host_list": alternates}
    conductor(compute, book, allocations).resize_instance(context(), filter_properties=failed_once(), **moved)
    (record,) = book.records()
    assert record.instance_uuid == "m"
    return record


def test_a_failed_resize_goes_on_to_an_alternate_while_its_migration_holds_the_source(compute, book):
    allocations = Allocations(full=["b"])
    record = resize_again(compute, book, [make_selection(name) for name in "bcd"], allocations)
    assert [(event.state, event.host) for event in record.events] == [
        (journal.REFUSED, "b"),
        (journal.BUILDING, "c"),
    ]
    assert allocations.held == {"m": "s", "i": "c"}
    ((method, sent),) = compute.casts
    assert (method, sent["instance_uuid"], sent["migration_uuid"], sent["host"]) == (
        "prep_resize",
        "i",
        "m",
        "c",
    )
    assert [one.service_host for one in sent["host_list"]] == ["d"]
    assert sent["filter_properties"]["retry"]["hosts"] == [["a", "a.example.net"], ["c", "c.example.net"]]


@pytest.mark.parametrize("error", [None, errors.AllocationUpdateFailed("i", "changed")])
def test_a_resize_without_an_alternate_gives_the_source_back_to_the_instance(compute, book, error):
    allocations = Allocations(full=["b"], error=error)
    record = resize_again(compute, book, [make_selection("b")], allocations)
    assert record.state == journal.ERROR
    assert allocations.held == {"i": "s"}
    assert compute.casts == []


def test_a_resize_whose_source_cannot_be_moved_is_not_tried(compute, book):
    allocations = Allocations()
    allocations.move = lambda source, target: False
    record = resize_again(compute, book, [make_selection("b")], allocations)
    assert record.state == journal.ERROR
    assert record.last.detail.endswith("consumer m. Error: it cannot hold the source allocation")
    assert allocations.held == {"i": "s"}
