import pytest

from scheduler import errors, objects
from scheduler.request import targets
from scheduler.request.targets import Node, Targets, Wanted
from tests.unit.request.builders import NODE, make_spec

CELL = objects.CellMapping(uuid="cell", name="c", transport_url="none://", database_connection="none://")


def destination(**fields):
    return objects.Destination(**fields)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, None),
        ({"force_hosts": [], "force_nodes": []}, None),
        ({"requested_destination": destination(aggregates=["a"])}, None),
        ({"requested_destination": destination(cell=CELL)}, None),
        ({"force_hosts": ["h", "other"]}, Wanted("h", None)),
        ({"force_nodes": ["n"]}, Wanted(None, "n")),
        ({"force_hosts": ["h"], "force_nodes": ["n"]}, Wanted("h", "n")),
        ({"requested_destination": destination(host="h")}, Wanted("h", None)),
        ({"requested_destination": destination(host="h", node=None)}, Wanted("h", None)),
        ({"requested_destination": destination(node="n")}, Wanted(None, "n")),
        ({"requested_destination": destination(host="h", node="n", cell=CELL)}, Wanted("h", "n", "cell")),
        ({"requested_destination": destination(host="h"), "force_hosts": ["x"]}, Wanted("h", None)),
        ({"requested_destination": destination(host="h"), "force_nodes": ["n"]}, Wanted("h", "n")),
        ({"requested_destination": destination(cell=CELL), "force_hosts": ["h"]}, Wanted("h", None, "cell")),
    ],
)
def test_wanted(fields, wanted):
    assert targets.wanted(make_spec(**fields)) == wanted


def test_nothing_wanted():
    assert targets.settle(make_spec(), None) == targets.ANYWHERE == Targets(None, limited=True)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (Wanted("h", None), "No such host - host: h node: None "),
        (Wanted(None, "n"), "No such host - host: None node: n "),
        (Wanted("h", "n", "cell"), "No such host - host: h node: n "),
    ],
)
def test_not_found(wanted, reason):
    with pytest.raises(errors.NoValidHost) as caught:
        targets.settle(make_spec(), wanted, [])
    assert caught.value.reason == reason


def test_one_node_narrows_the_destination():
    spec = make_spec(requested_destination=destination(host="h"))
    assert targets.settle(spec, Wanted("h", None), [Node(NODE, "h", "n")]) == Targets(NODE)
    assert (spec.requested_destination.host, spec.requested_destination.node) == ("h", "n")


def test_one_node_makes_no_destination():
    spec = make_spec(force_hosts=["h"])
    assert targets.settle(spec, Wanted("h", None), [Node(NODE, "h", "n")]) == Targets(NODE)
    assert spec.requested_destination is None


def test_several_nodes_lift_the_limit():
    spec = make_spec(requested_destination=destination(host="h"))
    nodes = [Node("1", "h", "a"), Node("2", "h", "b")]
    assert targets.settle(spec, Wanted("h", None), nodes) == Targets(None, limited=False)
    assert "node" not in spec.requested_destination
