import pytest

from scheduler import errors, objects
from scheduler.request import targets
from scheduler.request.targets import NamedTarget, Targets
from tests.unit.request.builders import NODE, FoundNode, make_spec

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
        ({"force_hosts": ["h", "other"]}, NamedTarget("h", None)),
        ({"force_nodes": ["n"]}, NamedTarget(None, "n")),
        ({"force_hosts": ["h"], "force_nodes": ["n"]}, NamedTarget("h", "n")),
        ({"requested_destination": destination(host="h")}, NamedTarget("h", None)),
        ({"requested_destination": destination(host="h", node=None)}, NamedTarget("h", None)),
        ({"requested_destination": destination(node="n")}, NamedTarget(None, "n")),
        (
            {"requested_destination": destination(host="h", node="n", cell=CELL)},
            NamedTarget("h", "n", "cell"),
        ),
        ({"requested_destination": destination(host="h"), "force_hosts": ["x"]}, NamedTarget("h", None)),
        ({"requested_destination": destination(host="h"), "force_nodes": ["n"]}, NamedTarget("h", "n")),
        (
            {"requested_destination": destination(cell=CELL), "force_hosts": ["h"]},
            NamedTarget("h", None, "cell"),
        ),
    ],
)
def test_the_named_target_of_a_request(fields, wanted):
    assert targets.named_target(make_spec(**fields)) == wanted


def test_without_a_named_target_all_hosts_are_queried_with_a_limit():
    assert targets.apply_lookup(make_spec(), None) == targets.ANY_HOST == Targets(None, limited=True)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (NamedTarget("h", None), "No such host - host: h node: None "),
        (NamedTarget(None, "n"), "No such host - host: None node: n "),
        (NamedTarget("h", "n", "cell"), "No such host - host: h node: n "),
    ],
)
def test_a_target_that_does_not_exist_is_refused(wanted, reason):
    with pytest.raises(errors.NoValidHost) as caught:
        targets.apply_lookup(make_spec(), wanted, [])
    assert caught.value.reason == reason


def test_one_node_found_narrows_the_destination():
    spec = make_spec(requested_destination=destination(host="h"))
    assert targets.apply_lookup(spec, NamedTarget("h", None), [FoundNode(NODE, "h", "n")]) == Targets(NODE)
    assert (spec.requested_destination.host, spec.requested_destination.node) == ("h", "n")


def test_one_node_found_makes_no_destination():
    spec = make_spec(force_hosts=["h"])
    assert targets.apply_lookup(spec, NamedTarget("h", None), [FoundNode(NODE, "h", "n")]) == Targets(NODE)
    assert spec.requested_destination is None


def test_several_nodes_found_lift_the_limit():
    spec = make_spec(requested_destination=destination(host="h"))
    nodes = [FoundNode("1", "h", "a"), FoundNode("2", "h", "b")]
    assert targets.apply_lookup(spec, NamedTarget("h", None), nodes) == Targets(None, limited=False)
    assert "node" not in spec.requested_destination
