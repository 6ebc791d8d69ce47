"""What is said of one host as of now."""

import pytest

from scheduler import objects
from scheduler.errors import NoValidHost
from scheduler.explain.hosts_now import HostsNow
from scheduler.explain.unoffered import DISABLED
from scheduler.filters.chain import FilterChain
from scheduler.hosts.pending import PendingPlacements
from scheduler.placement.candidates import Candidates
from scheduler.rules import load_filters
from tests.builders import Instances, make_table, uuid_of
from tests.support.options import make_conf
from tests.unit.explain.decisions import NAMES
from tests.unit.filters.asking import make_spec
from tests.unit.selection.requests import host_with_candidate

RULES = ["ComputeFilter", "NumInstancesFilter", "DifferentHostFilter"]


class World:
    """Hosts of which Placement offers all but some; ``asked`` are the requests for which it was asked."""

    def __init__(self, *hosts, unoffered=()):
        conf = make_conf(enabled_filters=RULES, max_instances_per_host=3)
        self.asked = []
        self.hosts = {host.columns["nodename"]: host for host in hosts}
        self.unoffered = unoffered
        chain = FilterChain(load_filters.load(conf))
        self.now = HostsNow(
            lambda: make_table(hosts),
            self.candidates,
            lambda: chain,
            Instances(hosts),
            PendingPlacements(),
            lambda: NAMES,
        )

    def candidates(self, request):
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
    ("host", "reason"),
    [
        (host_with_candidate("h1"), "its inventory or traits do not suit the query"),
        (host_with_candidate("h1").disabled(), DISABLED),
    ],
)
def test_a_host_that_placement_does_not_offer_is_said_to_be_none(host, reason):
    (node,) = World(host, unoffered=["h1"]).explain("h1")
    assert node.unoffered == reason


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
