"""A host as of now: what the databases and Placement have, what keeps requests away, and a decision again."""

import json
from types import SimpleNamespace

import pytest

from scheduler import objects
from scheduler.decisions.document import encode
from scheduler.decisions.failure_cause import cause_of
from scheduler.operators.explain import host_now
from scheduler.operators.explain.host_now import TAKEN, _smallest_flavor
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.placement.providers import Inventory, ProviderState
from tests.builders import CELL, OTHER_CELL, uuid_of
from tests.support.placement import make_node
from tests.unit.operators.plan.clouds import FILTERS, MadeCloud, flavor, node

RULES = [*FILTERS, "DifferentHostFilter"]


class OneHost(MadeCloud):
    """Hosts of one name; ``provider`` False leaves out the resource provider, otherwise it is one for h1."""

    def __init__(self, *hosts, provider=None, disabled_cells=(), where=None, **options):
        super().__init__(*hosts, **{"enabled_filters": RULES, **options})
        self._made, self._disabled_cells, self._where = provider, disabled_cells, where

    def now(self):
        snapshot = self.snapshot()
        snapshot.table.disabled_cells = frozenset(self._disabled_cells)
        if self._where is not None:
            snapshot.is_whole = False
            snapshot.hosts.instances.locate = self._where
        return PlannedCloud(snapshot)

    def _provider(self, host, used):
        if self._made is False:
            return make_node(uuid_of("another"))
        return self._made or super()._provider(host, used)

    def problems(self):
        (found,) = host_now.status(self.now()).nodes
        return [each.text for each in found.problems]

    def again(self, **fields):
        """What is decided now on a request for one instance."""
        uuid = uuid_of("new")
        made = MadeCloud(node("h1")).put("new", "h1", **fields)
        spec = objects.hydrate(json.loads(made.requests[uuid]), None)
        kept = SimpleNamespace(request_spec=lambda: spec, instances=[uuid, uuid_of("second")])
        return host_now.decide(self.now(), kept)


def h1(**amounts):
    return node("h1", **amounts)


INVENTORIES = {"VCPU": {"total": 8, "allocation_ratio": 4.0}, "MEMORY_MB": {"total": 8192, "reserved": 512}}


def provider(used=(), traits=("COMPUTE_NODE", "OWNER_NOVA"), **fields):
    return make_node(uuid_of("h1"), inventories=INVENTORIES, traits=set(traits), used=dict(used), **fields)


@pytest.mark.parametrize(
    ("cloud", "problems"),
    [
        (lambda: OneHost(h1()), []),
        (lambda: OneHost(h1().disabled("x")), ["lacks an enabled compute service: service disabled (x)"]),
        (lambda: OneHost(h1().forced_down()), ["is rejected by ComputeFilter: service forced down"]),
        (lambda: OneHost(h1(), disabled_cells=[CELL]), ["is not in an enabled cell"]),
        (lambda: OneHost(h1(), provider=False), ["lacks a resource provider in Placement"]),
        (
            lambda: OneHost(h1(), provider=provider(traits=["OWNER_NOVA", "COMPUTE_STATUS_DISABLED"])),
            [
                (
                    "lacks an enabled compute service: enabled in nova, but its resource provider has trait "
                    "COMPUTE_STATUS_DISABLED"
                )
            ],
        ),
        (lambda: OneHost(h1().aggregate("a")), ["1 of its aggregates missing in Placement"]),
        (lambda: OneHost(h1().aggregate("a"), provider=provider(aggregates={uuid_of("aggregate a")})), []),
        (
            lambda: OneHost(h1(), provider=provider({"VCPU": 31, "MEMORY_MB": 7680})),
            ["lacks 1 MEMORY_MB: at most 0 MEMORY_MB free"],
        ),
    ],
    ids=lambda value: "; ".join(value) if isinstance(value, list) else "",
)
def test_what_keeps_every_request_away_is_said_as_refusals_say_it(cloud, problems):
    assert cloud().problems() == problems


def test_a_host_without_a_mapping_has_that_problem():
    cloud = OneHost(h1())
    cloud.unmapped = {"h1"}
    assert cloud.problems() == ["lacks a host mapping"]


def test_a_service_that_was_not_seen_is_down():
    (problem,) = OneHost(h1().down()).problems()
    assert problem.startswith("is rejected by ComputeFilter: service last seen ")


def test_the_status_has_what_databases_and_placement_have():
    cloud = OneHost(h1().node("n1").az("az9"))
    (found,) = host_now.status(cloud.now()).nodes
    assert (found.host, found.node, found.uuid, found.zone) == ("h1", "n1", uuid_of("n1"), "az9")
    assert found.provider.inventories["VCPU"] == Inventory(8, max_unit=8)
    assert found.seen


def test_a_request_is_decided_again_for_the_host_alone():
    found = OneHost(h1()).again()
    assert (found.error, [one.host.host for one in found.chosen]) == (None, ["h1"])
    found = OneHost(h1()).again(of=flavor(vcpus=16))
    assert cause_of(found).words == "1 host lacks only 16 VCPU: VCPU max_unit 8"
    assert encode(found)


def test_all_that_the_host_fails_is_named():
    found = OneHost(h1().down()).again(of=flavor(vcpus=16, ram=9000), ignore_hosts=["h1"])
    (failing,) = found.why.failing
    assert sorted(each.text for each in found.why.of(failing)) == [
        "16 VCPU", "9000 MEMORY_MB", "ComputeFilter", "ignored by the request",
    ]  # fmt: skip


def test_the_databases_say_where_other_instances_are():
    there = {"A": [(CELL, "h1")]}
    found = OneHost(h1(), where=lambda uuids: there).again(scheduler_hints={"different_host": ["A"]})
    assert cause_of(found).code == "hint"


def test_a_rebuild_is_checked_again():
    rebuild = {"_nova_check_type": ["rebuild"]}
    assert OneHost(h1()).again(scheduler_hints=rebuild, force_hosts=["h1"]).error is None
    assert OneHost(h1()).again(scheduler_hints=rebuild, force_hosts=["h2"]).error.kind == "NoValidHost"


def test_a_bare_metal_node_is_asked_for_what_it_has():
    bare = ProviderState("u", 1, {"CUSTOM_BM": Inventory(1)})
    nothing = dict.fromkeys([f"resources:{name}" for name in TAKEN], "0")
    specs = _smallest_flavor({"u": bare}).extra_specs
    assert specs == {"resources:CUSTOM_BM": "1", **nothing}


def test_a_host_of_another_cell_is_not_in_that_of_the_instance():
    destination = objects.Destination(cell=objects.CellMapping(uuid=OTHER_CELL), allow_cross_cell_move=False)
    found = OneHost(h1()).again(requested_destination=destination)
    assert cause_of(found).words == "1 host suits but is not in the cell of the instance"
