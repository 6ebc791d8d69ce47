"""The state of a host: what the databases and Placement have, and which problems that is."""

import pytest

from scheduler.decisions.host_status import HostStatusReader
from scheduler.hosts.aggregates import Aggregates
from scheduler.hosts.table import HostTable
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.providers import Inventory, ProviderState
from tests.builders import CELL, make_host, make_table, uuid_of
from tests.unit.decisions.decisions import NAMES

INVENTORIES = {
    "VCPU": Inventory(8, max_unit=8, allocation_ratio=4.0),
    "MEMORY_MB": Inventory(8192, max_unit=8192, reserved=512),
    "VGPU": Inventory(1, max_unit=1),
}


def state(inventories=(), used=(), traits=(), aggregates=()):
    return ProviderState("u", 1, dict(inventories), dict(used), frozenset(traits), frozenset(aggregates))


class World:
    """Hosts, and a Placement that knows one resource provider, or fails."""

    def __init__(self, *hosts, provider=None, mapped=True, **table):
        self.found = state(INVENTORIES) if provider is None else provider
        self.table = make_table(hosts, **table)
        self.states = HostStatusReader(
            lambda: self.table, lambda host: mapped, self, lambda: NAMES, lambda: 60.0
        )

    def provider(self, uuid):
        if isinstance(self.found, Exception):
            raise self.found
        return self.found or None

    def problems(self, name="h1"):
        (node,) = self.states.status(name).nodes
        return [each.text for each in node.problems]


def of(host, **world):
    return World(host, **world).problems()


def h1():
    return make_host("h1")


@pytest.mark.parametrize(
    ("problems", "words"),
    [
        (lambda: of(h1()), []),
        (lambda: of(h1().disabled("kernel update")), ["service disabled (kernel update)"]),
        (lambda: of(h1().forced_down()), ["service forced down"]),
        (lambda: of(h1(), mapped=False), ["it is mapped to no cell"]),
        (lambda: of(h1(), disabled_cells=[CELL]), ["its cell is disabled"]),
        (lambda: of(h1(), provider=False), ["it has no resource provider in Placement"]),
        (lambda: of(h1(), provider=PlacementSilent("HTTP 503")), ["Placement gives no answer: HTTP 503"]),
        (
            lambda: of(h1(), provider=state(traits=["COMPUTE_STATUS_DISABLED"])),
            ["it has trait COMPUTE_STATUS_DISABLED, though its service is enabled"],
        ),
        (
            lambda: of(h1().disabled("x"), provider=state(traits=["COMPUTE_STATUS_DISABLED"])),
            ["service disabled (x)"],
        ),
        (
            lambda: of(h1().aggregate("a")),
            ["1 of its aggregates missing in Placement"],
        ),
        (lambda: of(h1().aggregate("a"), provider=state(aggregates=[uuid_of("aggregate a")])), []),
        (
            lambda: of(h1(), provider=state(INVENTORIES, {"VCPU": 31, "MEMORY_MB": 7680, "VGPU": 1})),
            [
                "at most 0 MEMORY_MB free: 7680 of 7680 are used (total 8192, reserved 512, allocation_ratio 1)"
            ],
        ),
    ],
)
def test_what_keeps_requests_away(problems, words):
    assert problems() == words


def test_a_host_without_a_service_has_that_problem():
    world = World(h1())
    row = make_host("h9").row()
    world.table = HostTable([row], {}, Aggregates())
    for name in ("h9", row.uuid):
        assert world.problems(name) == ["it has no compute service record"]


def test_a_service_that_was_not_seen_is_down():
    (problem,) = of(h1().down())
    assert problem.startswith("service last seen ")


def test_the_state_has_what_databases_and_placement_have():
    world = World(h1().node("n1").az("az9"), make_host("h2"))
    (node,) = world.states.status("n1").nodes
    assert (node.host, node.node, node.uuid, node.cell, node.zone) == (
        "h1",
        "n1",
        uuid_of("n1"),
        "cell1",
        "az9",
    )
    assert node.provider.inventories == INVENTORIES
    assert node.seen
    assert [each.host for each in world.states.status(uuid_of("h2")).nodes] == ["h2"]
    assert world.states.status("h3").nodes == []
