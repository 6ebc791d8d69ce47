"""What a request asks for beside its flavor, as the header of a decision has it."""

import msgspec
import pytest

from scheduler import objects
from scheduler.decisions.document import decode, encode
from scheduler.decisions.trace import Trace
from scheduler.operators.explain.decision import requested_lines
from tests.builders import uuid_of
from tests.unit.filters.asking import make_request

UUID = uuid_of("image")
GROUP = {"uuid": uuid_of("group"), "policy": "anti-affinity", "members": ["a", "b"], "hosts": ["h2", "h1"]}


def lines(**fields):
    return list(requested_lines(decode(encode(Trace(make_request(**fields)).decision))))


@pytest.mark.parametrize(
    ("fields", "title", "text"),
    [
        ({"force_hosts": ["h1"]}, "forced to", "h1"),
        ({"force_nodes": ["n1"]}, "forced to", "n1"),
        (
            {"requested_destination": objects.Destination(host="h1", node="n1")},
            "requested destination",
            "host h1, node n1",
        ),
        ({"ignore_hosts": ["h1", "h2"]}, "ignored hosts", "h1, h2"),
        (
            {"hints": {"same_host": ["A", "B"], "query": ["[]"]}},
            "hints",
            "same_host=A, same_host=B, query=[]",
        ),
        (
            {"group": GROUP | {"name": "db", "_rules": {"max_server_per_host": "2"}}},
            "server group",
            f"db ({GROUP['uuid']}): anti-affinity, max_server_per_host=2, 2 members on h1, h2",
        ),
        (
            {"group": {"uuid": GROUP["uuid"], "policies": ["affinity"], "policy": None}},
            "server group",
            f"{GROUP['uuid']}: affinity, 0 members",
        ),
        (
            {
                "image": objects.ImageMeta(
                    id=UUID,
                    name="debian",
                    properties=objects.ImageMetaProps(hw_disk_bus="virtio", traits_required=["A", "B"]),
                )
            },
            "image",
            "debian: hw_disk_bus=virtio, traits_required=A,B",
        ),
    ],
    ids=str,
)
def test_what_is_asked_for_is_one_line(fields, title, text):
    assert lines(**fields) == [(title, text)]


def test_what_is_not_asked_for_is_not_mentioned():
    assert lines(image={}, requested_destination=objects.Destination(aggregates=["a"])) == []


def test_of_a_request_that_was_not_kept_nothing_is_said():
    decision = Trace(make_request(force_hosts=["h1"])).decision
    decision.spec = msgspec.Raw(b"null")
    assert list(requested_lines(decision)) == []
