"""Why Placement does not offer a host, as far as the host table tells."""

import pytest

from scheduler import objects
from scheduler.decisions.unoffered import DISABLED, Unoffered
from scheduler.request.scheduling_request import SchedulingRequest
from tests.builders import OTHER_CELL, make_host, make_table, uuid_of
from tests.unit.filters.asking import make_spec

ZONE, LICENSED = uuid_of("aggregate az-a"), uuid_of("aggregate licensed")


def unoffered(*hosts, **fields):
    destination = objects.Destination(
        aggregates=[ZONE], forbidden_aggregates={LICENSED}, **fields.pop("destination", {})
    )
    spec = make_spec(availability_zone="a", requested_destination=destination, **fields)
    table = make_table([make_host("member").az("a"), *hosts], disabled_cells=[OTHER_CELL])
    return Unoffered(table, SchedulingRequest.of(spec, ["i"]))


@pytest.mark.parametrize(
    ("host", "fields", "reasons"),
    [
        (make_host("h").az("a"), {}, []),
        (make_host("h").az("a").disabled(), {}, [DISABLED]),
        (make_host("h"), {}, ["not in availability zone a"]),
        (
            make_host("h").az("a").aggregate("licensed", {"trait:CUSTOM_L": "required"}),
            {},
            ["in forbidden aggregate licensed (isolated: for requests with trait CUSTOM_L)"],
        ),
        (make_host("h").az("a").cell(OTHER_CELL), {}, ["in a cell that takes no part"]),
        (make_host("h").az("a"), {"force_hosts": ["H"]}, []),
        (make_host("h").az("a"), {"force_hosts": ["g"]}, ["not the requested host g"]),
        (make_host("h").az("a"), {"destination": {"host": "g"}}, ["not the requested host g"]),
    ],
    ids=lambda value: "" if not isinstance(value, list) else "; ".join(value) or "not known",
)
def test_what_is_against_a_host_is_told(host, fields, reasons):
    assert list(unoffered(host, **fields).reasons(1)) == reasons


def test_disabled_hosts_that_the_request_could_go_to_are_found():
    hosts = [
        make_host("offered").az("a").disabled(),
        make_host("hidden").az("a").disabled(),
        make_host("elsewhere").disabled(),
    ]
    assert unoffered(*hosts).disabled([0, 1]) == [2]
