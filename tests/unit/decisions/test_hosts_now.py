"""What is said of one host as of now."""

import json

import pytest

from scheduler import objects
from scheduler.decisions.hosts_now import UNSUITABLE, HostsNow
from scheduler.decisions.obstacles import Obstacles
from scheduler.decisions.providers import OfferedHosts, read_offer
from scheduler.decisions.unoffered import DISABLED
from scheduler.errors import NoValidHost
from scheduler.filters.chain import FilterChain
from scheduler.hosts.pending import PendingPlacements
from scheduler.placement.candidates import Candidates
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.providers import Inventory, ProviderState
from scheduler.request.query import Query
from scheduler.rules import load_filters
from tests.builders import Instances, make_table, uuid_of
from tests.support.options import make_conf
from tests.unit.decisions.decisions import NAMES
from tests.unit.filters.asking import make_spec
from tests.unit.selection.requests import host_with_candidate

QUERY = (
    "in_tree=u&required=HW_GPU&resources=DISK_GB%3A10%2CMEMORY_MB%3A2048%2CVCPU%3A4"
    "&root_required=%21COMPUTE_STATUS_DISABLED"
)
OFFER = {
    "allocation_requests": [{"allocations": {"u": {"resources": {"VCPU": 1}}}, "mappings": {"": ["u"]}}],
    "provider_summaries": {
        "u": {
            "root_provider_uuid": "u",
            "parent_provider_uuid": None,
            "traits": [],
            "resources": {"VCPU": {"capacity": 16, "used": 14}},
        }
    },
}
RULES = ["ComputeFilter", "NumInstancesFilter", "DifferentHostFilter"]


def state(inventories, used):
    return ProviderState("u", 1, inventories, used, frozenset(), frozenset())


class World:
    """Hosts of which Placement offers all but some; ``asked`` are the requests for which it was asked.

    ``refuses`` are the parts of a query that keep it from offering any of these.
    """

    def __init__(self, *hosts, unoffered=(), refuses=("",), provider=None):
        conf = make_conf(enabled_filters=RULES, max_instances_per_host=3)
        self.asked = []
        self.hosts = {host.columns["nodename"]: host for host in hosts}
        self.unoffered, self.refuses, self._provider = unoffered, refuses, provider
        chain = FilterChain(load_filters.load(conf))
        self.now = HostsNow(
            lambda: make_table(hosts),
            lambda request: [Query((), QUERY, None)],
            self.candidates,
            Obstacles(self),
            lambda: chain,
            Instances(hosts),
            PendingPlacements(),
            lambda: NAMES,
        )

    def offer(self, querystring):
        if any(part in querystring for part in self.refuses):
            return OfferedHosts()
        return read_offer(json.dumps(OFFER).encode(), None)

    def inventories(self, provider):
        return {"VCPU": Inventory(4, max_unit=4, allocation_ratio=4.0)}

    def provider(self, uuid):
        if isinstance(self._provider, Exception):
            raise self._provider
        return self._provider

    def candidates(self, queries, request):
        self.asked.append(request)
        node = request.spec.requested_destination.node
        if node in self.unoffered:
            raise NoValidHost
        return Candidates({uuid_of(node): tuple(self.hosts[node].candidates)})

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
    ("host", "refuses", "provider", "reason", "kinds"),
    [
        (host_with_candidate("h1"), ["in_tree"], None, UNSUITABLE, []),
        (host_with_candidate("h1"), ["in_tree"], PlacementSilent("away"), UNSUITABLE, []),
        (host_with_candidate("h1"), ["HW_GPU"], None, "not with required trait HW_GPU", ["trait"]),
        (
            host_with_candidate("h1"),
            ["VCPU"],
            None,
            "not with 4 VCPU (at most 2 VCPU free on 1 host)",
            ["amount"],
        ),
        (
            host_with_candidate("h1"),
            ["VCPU", "HW_GPU"],
            None,
            "not with required trait HW_GPU and 4 VCPU (at most 2 VCPU free on 1 host)",
            ["amount", "trait"],
        ),
        (
            host_with_candidate("h1"),
            ["VCPU", "MEMORY_MB", "DISK_GB"],
            state({"VCPU": Inventory(4), "MEMORY_MB": Inventory(4096)}, {"VCPU": 3}),
            "not with 10 DISK_GB (no DISK_GB on 1 host); not with 4 VCPU (at most 1 VCPU free on 1 host)",
            ["amount"],
        ),
        (host_with_candidate("h1"), [], None, "it is offered when the query is sent again", []),
        (host_with_candidate("h1").disabled(), ["COMPUTE_STATUS_DISABLED"], None, DISABLED, ["disabled"]),
        (
            host_with_candidate("h1").disabled(),
            ["COMPUTE_STATUS_DISABLED", "HW_GPU"],
            None,
            f"{DISABLED}; not with required trait HW_GPU",
            ["disabled", "trait"],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_keeps_placement_from_offering_a_host(host, refuses, provider, reason, kinds):
    world = World(host, unoffered=["h1"], refuses=refuses, provider=provider)
    (node,) = world.explain("h1")
    assert (node.unoffered, node.kinds) == (reason, kinds)


def test_placement_is_asked_about_this_host_and_the_request_stays_as_it_is():
    world = World(host_with_candidate("h1"), host_with_candidate("h2"))
    spec = make_spec(
        instance_uuid="i",
        ignore_hosts=["h1"],
        requested_destination=objects.Destination(host="h2", node="h2"),
    )
    (node,) = world.now.explain(spec, ["i"], "h1").nodes
    assert node.excluded == "not the requested destination h2, h2"
    (asked,) = world.asked
    assert asked.spec.requested_destination.host == "h1"
    assert spec.requested_destination.host == "h2"


def test_nodes_of_one_host_are_asked_about_one_by_one():
    world = World(*(host_with_candidate(f"n{number}").set(host="ironic") for number in range(3)))
    assert [node.node for node in world.explain("ironic")] == ["n0", "n1", "n2"]
    assert len(world.asked) == 3
