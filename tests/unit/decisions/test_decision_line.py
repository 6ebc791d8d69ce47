import pytest

from scheduler.decisions.decision_line import amounts_of, placed_lines, refused_line
from scheduler.decisions.document import CandidateOrigin
from scheduler.decisions.record import DecisionRecord, Names
from scheduler.objects import Selection
from scheduler.placement.claim_events import ClaimEvent, ClaimState
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from tests.unit.filters.asking import make_spec


def record(*uuids, **fields):
    made = DecisionRecord(SchedulingRequest.of(make_spec(), uuids), 0.0, Names)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def tries(*hosts):
    return [ClaimEvent(1, host, 409, "refused", ClaimState.NEXT_HOST) for host in hosts]


def test_each_instance_has_a_line_with_its_own_tries():
    decided = record(
        "i1",
        "i2",
        queries=[Query((("resources", "VCPU:1"),), "", None)],
        candidates=CandidateOrigin("mirror", 500, known=412),
        passed=37,
        claims={"i1": tries("h3", "h3", "h1"), "i2": tries("h2")},
    )
    selections = [
        [Selection(service_host="h1", cell_uuid="c1"), Selection(service_host="h9", cell_uuid="c1")],
        [Selection(service_host="h2", cell_uuid="c2")],
    ]
    assert list(placed_lines(decided, selections, 0.0234, {"c1": "cell1", "c2": None})) == [
        "Placed instance i1 on host h1 (cell1): 412 candidates -> 37 passed, 2 tries, 23 ms, VCPU:1",
        "Placed instance i2 on host h2 (c2): 412 candidates -> 37 passed, 1 try, 23 ms, VCPU:1",
    ]


@pytest.mark.parametrize(
    ("uuids", "start"),
    [(["i1", "i2"], "No host for instance i1 and 1 more: "), ([], "No host for instance none: ")],
)
def test_a_refused_request_is_one_line(uuids, start):
    assert refused_line(record(*uuids), 1.0, "none fits ") == (
        f"{start}0 candidates -> 0 passed, 0 tries, 1000 ms: none fits"
    )


def test_amounts_are_those_of_the_query_with_the_names_of_groups():
    params = [
        ("limit", "1000"),
        ("resources", "DISK_GB:20,VCPU:1"),
        ("resources_A", "VF:1"),
        ("required", "X"),
    ]
    assert amounts_of(params) == "DISK_GB:20 VCPU:1; A=VF:1"
