"""What is said of one host as of now."""

from contextlib import nullcontext
from urllib.parse import parse_qsl

import pytest

from scheduler import objects
from scheduler.decisions.explanation import FailureExplainer
from scheduler.decisions.explanation import World as Known
from scheduler.errors import NoValidHost, PlacementUnavailable
from scheduler.filters.chain import FilterChain
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.view import HostView
from scheduler.numa.fit import Fitter
from scheduler.placement.candidates import Candidates
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.mirror import Mirror, Nodes
from scheduler.placement.providers import Inventory, ProviderState
from scheduler.request.query import Query
from scheduler.rules import load_filters
from scheduler.selection.driver import FilterDriver
from scheduler.workflow import host_now
from scheduler.workflow.decide import Offer
from scheduler.workflow.host_now import UNSUITABLE, HostsNow
from tests.builders import CELL, OTHER_CELL, Instances, make_table, uuid_of
from tests.support.options import make_conf
from tests.unit.decisions.decisions import NAMES
from tests.unit.filters.asking import make_spec
from tests.unit.selection.requests import host_with_candidate
from tests.unit.workflow.random_decisions import Decisions

QUERY = (
    "in_tree=u&required=HW_GPU&resources=DISK_GB%3A10%2CMEMORY_MB%3A2048%2CVCPU%3A4"
    "&root_required=%21COMPUTE_STATUS_DISABLED"
)
RULES = ["ComputeFilter", "NumInstancesFilter", "DifferentHostFilter"]


ROOM = {"VCPU": Inventory(16), "MEMORY_MB": Inventory(65536), "DISK_GB": Inventory(100)}


def state(used=(), traits=("HW_GPU",), **inventories):
    return ProviderState(uuid_of("h1"), 1, ROOM | inventories, dict(used), frozenset(traits), frozenset())


class NoMirror:
    """A mirror that has read no node."""

    full_nodes = ()
    known = Mirror()

    def known_nodes(self, aggregates, *, reads=True):
        return Nodes()


class World:
    """Hosts of which Placement offers all but some; ``asked`` are the destinations that it was asked for.

    ``provider`` is what it has of each host. It is a ``decide.World`` as well.
    """

    def __init__(self, *hosts, unoffered=(), provider=None):
        conf = make_conf(enabled_filters=RULES, max_instances_per_host=3)
        self.asked = []
        self.hosts = {host.columns["nodename"]: host for host in hosts}
        self.unoffered, self._provider = unoffered, provider
        self.table, self.instances, self.pending = make_table(hosts), Instances(hosts), PendingPlacements()
        chain = FilterChain(load_filters.load(conf))
        self.driver = FilterDriver(conf, chain, (), Fitter())
        explainer = FailureExplainer(
            Known(
                lambda: self.table,
                NoMirror(),
                self,
                lambda: chain,
                lambda host: True,
                self.instances,
                self.pending,
            )
        )
        self.now = HostsNow(lambda: self.table, lambda: self, explainer, lambda: NAMES)

    def provider(self, uuid):
        if isinstance(self._provider, Exception):
            raise self._provider
        return self._provider

    def queries(self, request):
        self.asked.append((request.spec.requested_destination.host, request.spec.requested_destination.node))
        return (Query(tuple(parse_qsl(QUERY)), QUERY, None),)

    def ask_placement(self, request):
        offered = self.hosts.keys() - set(self.unoffered)
        return Candidates({uuid_of(node): tuple(self.hosts[node].candidates) for node in offered})

    def offered(self, found, request, *, late):
        rows = self.table.find(found.by_root, request.cell_uuid)
        lists = list(found.by_root.values())
        return Offer(HostView.of(self.table, rows, lists, self.instances, self.pending))

    def turn(self, request):
        return nullcontext(request)

    def explain(self, name, **fields):
        return self.now.explain(make_spec(instance_uuid="i", **fields), ["i"], name).nodes


def verdicts(node):
    return [(one.filter, one.verdict, bool(one.reason)) for one in node.verdicts]


def test_every_filter_is_asked():
    (node,) = World(host_with_candidate("h1").down().num_instances(3)).explain("h1")
    assert verdicts(node) == [
        ("ComputeFilter", "rejected", True),
        ("NumInstancesFilter", "rejected", True),
        ("DifferentHostFilter", "does not apply", False),
    ]
    assert (node.host, node.cell, node.zone) == ("h1", "cell1", "default zone")
    assert (node.excluded, node.unoffered) == ("", "")


@pytest.mark.parametrize("name", ["h1", "n1", uuid_of("n1")])
def test_a_host_is_found_by_host_node_and_uuid(name):
    world = World(host_with_candidate("h0"), host_with_candidate("h1").node("n1"))
    assert [node.node for node in world.explain(name)] == ["n1"]
    assert world.explain("zz") == []


def test_what_filters_look_at_is_loaded():
    (node,) = World(host_with_candidate("h1").holding("A")).explain("h1", hints={"different_host": ["A"]})
    assert verdicts(node)[-1] == ("DifferentHostFilter", "rejected", True)


@pytest.mark.parametrize(
    ("provider", "reason", "remedies"),
    [
        (None, "a resource provider in Placement", ["Find out why nova-compute"]),
        (PlacementSilent("away"), "a resource provider in Placement", ["Find out why nova-compute"]),
        (state(), UNSUITABLE, []),
        (state(traits=()), "required trait HW_GPU (flavor or image)", ["Correct the trait"]),
        (state(used={"VCPU": 14}), "4 VCPU: at most 2 VCPU free", ["Free or add capacity"]),
        (state(VCPU=Inventory(16, max_unit=2)), "4 VCPU: VCPU max_unit 2", ["Use a flavor with at most 2"]),
        (
            state(used={"VCPU": 14, "DISK_GB": 95}, traits=("COMPUTE_STATUS_DISABLED",)),
            (
                "required trait HW_GPU (flavor or image); 10 DISK_GB: at most 5 DISK_GB free; "
                "4 VCPU: at most 2 VCPU free; an enabled compute service: enabled in nova, but its resource "
                "provider has trait COMPUTE_STATUS_DISABLED"
            ),
            ["Correct the trait", "Free or add capacity", "Free or add capacity", "Restart nova-compute"],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_keeps_placement_from_offering_a_host(provider, reason, remedies):
    world = World(host_with_candidate("h1"), unoffered=["h1"], provider=provider)
    (node,) = world.explain("h1")
    assert node.unoffered == reason
    assert [part for part, remedy in zip(remedies, node.remedies, strict=True) if part not in remedy] == []


def test_placement_is_asked_about_this_host_and_the_request_stays_as_it_is():
    world = World(host_with_candidate("h1"), host_with_candidate("h2"))
    spec = make_spec(
        instance_uuid="i",
        ignore_hosts=["h1"],
        requested_destination=objects.Destination(host="h2", node="h2"),
    )
    (node,) = world.now.explain(spec, ["i"], "h1").nodes
    assert node.excluded == "not the requested destination h2, h2"
    assert world.asked == [("h1", "h1")]
    assert spec.requested_destination.host == "h2"


def test_nodes_of_one_host_are_asked_about_one_by_one():
    world = World(*(host_with_candidate(f"n{number}").set(host="ironic") for number in range(3)))
    assert [node.node for node in world.explain("ironic")] == ["n0", "n1", "n2"]
    assert len(world.asked) == 3


def test_a_host_that_is_not_the_destination_is_filtered_all_the_same():
    world = World(host_with_candidate("h1"))
    (node,) = world.explain("h1", requested_destination=objects.Destination(host="h2", node="h2"))
    assert [one.filter for one in node.verdicts] == RULES


def test_forced_hosts_are_not_filtered_and_others_are_excluded():
    world = World(host_with_candidate("h1").down(), host_with_candidate("h2").down())
    (forced,) = world.explain("h1", force_hosts=["h1"])
    (other,) = world.explain("h2", force_hosts=["h1"])
    assert (forced.excluded, forced.verdicts) == ("", [])
    assert other.excluded == "not in force_hosts ['h1']"


def test_a_host_of_another_cell_is_excluded_whatever_placement_offers():
    world = World(host_with_candidate("h1"))
    cell = objects.CellMapping(uuid=OTHER_CELL)
    destination = objects.Destination(cell=cell, allow_cross_cell_move=False)
    (node,) = world.explain("h1", requested_destination=destination)
    assert (node.excluded, node.unoffered, node.verdicts, node.asked) == (host_now.OTHER_CELL, "", [], False)
    assert world.asked == []


def test_a_host_of_a_disabled_cell_is_excluded():
    world = World(host_with_candidate("h1"))
    world.table = make_table([host_with_candidate("h1")], disabled_cells=[CELL])
    (node,) = world.explain("h1")
    assert (node.excluded, node.asked) == (host_now.DISABLED_CELL, False)


def test_a_request_that_a_pre_filter_refuses_is_refused_for_each_host():
    world = World(host_with_candidate("h1"))

    def queries(request):
        raise NoValidHost("Scheduling failed: no such zone")

    world.queries = queries
    (node,) = world.explain("h1")
    assert (node.excluded, node.verdicts, node.asked) == ("Scheduling failed: no such zone", [], False)


def test_without_an_answer_of_placement_nothing_is_said():
    world = World(host_with_candidate("h1"))
    world.ask_placement = lambda request: Candidates(failed=True, reason="no connection")
    with pytest.raises(PlacementUnavailable):
        world.explain("h1")


@pytest.mark.parametrize("seed", range(20))
def test_a_host_passes_now_where_a_decision_has_it(seed):
    """With the world of a manager, and with that of a plan."""
    one = Decisions(seed, instances=1)
    ranked = one.rank()
    expected = set() if isinstance(ranked, str) else {name for name, _ in ranked}
    for world in one.worlds():
        now = HostsNow(lambda: one.snapshot.table, lambda world=world: world, one.explainer, lambda: NAMES)
        found = {
            host: now.explain(one.request.spec(), one.request.uuids, host).nodes[0] for host in one.hosts
        }
        passing = {host for host, node in found.items() if _passes(node)}
        assert passing == expected


def _passes(node):
    return not (node.excluded or node.unoffered or any(one.verdict == "rejected" for one in node.verdicts))
