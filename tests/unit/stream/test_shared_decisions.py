from datetime import datetime
import json

import numpy as np
import pytest

from scheduler.hosts.pending import AMOUNTS, LIFETIME, PendingPlacements
from scheduler.hosts.view import HostView
from scheduler.numa.topology import Limits, NumaNetworks
from scheduler.numa.usage import InstanceDemand
from scheduler.pci.requests import make_request
from scheduler.stream.records import Entry, Kind, Record, decode, encode
from scheduler.stream.shared_decisions import LocalState, SharedDecisions
from tests.builders import make_host, make_table, uuid_of
from tests.unit.numa.shapes import floating, guest, pinned

STAMP = datetime(2026, 1, 1, 12)
ONE = np.array([-512, -20480, 1, 1, 1])
NOTHING = np.zeros(len(AMOUNTS), int)
H1, H2 = uuid_of("h1"), uuid_of("h2")
TAKEN = {"VCPU": 1, "MEMORY_MB": 512}


class Mirror:
    def __init__(self):
        self.seen = []
        self.ages = []

    def heard(self, allocations, age, sign):
        self.seen.append(("claimed" if sign > 0 else "released", allocations))
        self.ages.append(age)


class Scheduler:
    """One side of the stream; ``others`` apply what it publishes, after it was encoded and decoded."""

    def __init__(self):
        self.table = make_table([make_host(name).set(updated=STAMP) for name in ("h1", "h2")])
        self.pending, self.mirror = PendingPlacements(), Mirror()
        self.shared = SharedDecisions(LocalState(self.pending, lambda: self.table, self.mirror), self.publish)
        self.pending.listener = self.shared
        self.published, self.others = [], []

    def publish(self, kind, entry):
        record = Record(version=1, kind=kind, sender="s", counter=0, time=0, entries=(entry,))
        self.published.append(kind.value)
        ((body, _),) = encode([record])
        for other in self.others:
            other.shared.apply(*decode(body).records)

    def reserve(self, instance, row):
        return self.pending.add(instance, self.table, row, ONE)

    def reserve_demand(self, instance, row, demand):
        return self.pending.add(instance, self.table, row, ONE, demand=demand)

    def demands_on(self, row):
        found = self.pending.demands.on(self.table, np.array([row]))
        return list(found.get(0, {}).values())

    def on(self, row):
        return self.pending.overlay(self.table, np.array([row]))[:, 0].tolist()


@pytest.fixture
def one():
    return Scheduler()


@pytest.fixture
def another(one):
    made = Scheduler()
    one.others.append(made)
    return made


def allocations(node=H1, **resources):
    return {node: {"resources": resources or TAKEN}}


def record(kind, **fields):
    entry = Entry(**{"instance": "i1", "node": H1, "columns": {"vcpus_used": 1}} | fields)
    return Record(version=1, kind=kind, sender="s", counter=0, time=0, entries=(entry,))


def test_an_intent_lies_over_the_table_of_another_scheduler_as_over_its_own(one, another):
    one.reserve("i1", 0)
    assert (one.published, one.on(0), another.on(0)) == (["intent"], ONE.tolist(), ONE.tolist())
    assert another.pending.get("i1").updated == STAMP
    assert another.mirror.seen == another.published == []


def test_a_claim_counts_in_the_mirror_of_another_scheduler(one, another):
    one.reserve("i1", 0)
    one.shared.claimed("i1", allocations())
    assert one.published == ["intent", "claimed"]
    assert another.mirror.seen == [("claimed", allocations())]
    assert another.on(0) == ONE.tolist()


def test_a_claim_is_enough_for_one_that_missed_the_intent(one):
    one.reserve("i1", 0)
    late = Scheduler()
    one.others.append(late)
    one.shared.claimed("i1", allocations())
    assert late.on(0) == ONE.tolist()


def test_what_another_scheduler_is_granted_is_told_from_what_it_claims(one, another):
    later = another.pending.now() + 1000
    one.reserve("i1", 0)
    assert another.pending.claims.has_newer(H1, later)
    one.shared.claimed("i1", allocations())
    assert not another.pending.claims.has_newer(H1, later)


def test_a_refused_host_is_free_again(one, another):
    one.reserve("i1", 0)
    one.pending.remove(["i1"])
    one.reserve("i1", 1)
    assert one.published == ["intent", "released", "intent"]
    assert (another.on(0), another.on(1)) == (NOTHING.tolist(), ONE.tolist())


def test_a_release_frees_the_host_and_the_mirror(one, another):
    one.reserve("i1", 0)
    one.shared.claimed("i1", allocations())
    one.shared.released("i1", allocations())
    assert another.on(0) == NOTHING.tolist()
    assert another.mirror.seen == [("claimed", allocations()), ("released", allocations())]


def test_a_view_of_another_scheduler_shows_the_decision(one, another):
    one.reserve("i1", 0)
    view = HostView.of(another.table, np.arange(2), pending=another.pending)
    assert view.numbers("num_instances").tolist() == [1, 0]


def test_a_deleted_instance_is_published_once_and_removed_everywhere(one, another):
    another.others.append(one)
    one.reserve("i1", 0)
    one.shared.gone("i1")
    another.shared.gone("i1")
    assert (one.published, another.published) == (["intent", "gone"], [])
    assert another.on(0) == NOTHING.tolist()


def test_what_no_record_has_room_for_is_not_published_as_deleted(one):
    one.shared.gone("x" * 64)
    one.shared.gone("x" * 65)
    assert one.published == ["gone"]


def test_providers_that_are_no_compute_nodes_are_not_published(one):
    one.shared.claimed("i1", {"another provider": {"resources": {"VGPU": 1}}})
    assert one.published == []


@pytest.mark.parametrize("kind", [Kind.INTENT, Kind.CLAIMED])
def test_unknown_nodes_have_no_effect(one, kind):
    one.shared.apply(record(kind, node="unknown", resources=TAKEN))
    assert (len(one.pending), one.mirror.seen) == (0, [])


def test_a_record_past_its_lifetime_has_no_effect(one):
    one.shared.apply(record(Kind.CLAIMED, resources=TAKEN), age=LIFETIME)
    assert (len(one.pending), one.mirror.seen) == (0, [])


@pytest.mark.parametrize("kind", [Kind.CLAIMED, Kind.RELEASED])
def test_the_mirror_is_told_how_long_ago_it_was(one, kind):
    for age in (0.0, 61.0):
        one.shared.apply(record(kind, resources=TAKEN), age=age)
    assert one.mirror.ages == [0.0, 61.0]


def test_columns_that_are_not_known_here_are_left_out(one):
    one.shared.apply(record(Kind.INTENT, columns={"vcpus_used": 2, "gpus": 3}))
    assert one.on(0) == [0, 0, 2, 0, 0]


def test_a_refusal_on_another_node_leaves_the_placement(one):
    one.reserve("i1", 0)
    one.shared.apply(record(Kind.RELEASED, node=H2))
    assert one.on(0) == ONE.tolist()


DEMANDS = {
    "devices": InstanceDemand(
        requests=(
            make_request(2, [{"vendor_id": "10de"}, {"product_id": None}], alias_name="gpu", request_id="r"),
        ),
        mappings={"r-0": ["p1"]},
    ),
    "cells": InstanceDemand(
        guest(pinned(0, thread_policy="require"), floating(1, pagesize=2048), isolated_emulator=True),
        Limits(16.0, 1.5, NumaNetworks(frozenset({"physnet1"}), tunneled=True)),
        (),
    ),
    "cells without limits": InstanceDemand(guest(pinned()), Limits(1.0, 1.0), (), {}),
}


@pytest.mark.parametrize("demand", DEMANDS.values(), ids=DEMANDS)
def test_cells_and_devices_are_taken_of_the_table_of_another_scheduler(one, another, demand):
    one.reserve_demand("i1", 0, demand)
    assert another.demands_on(0) == [demand]
    one.shared.claimed("i1", allocations())
    assert another.demands_on(0) == [demand]
    one.pending.remove(["i1"])
    assert another.demands_on(0) == []


UNREADABLE = {
    "negative": {"guest": {"cells": [{"id": "-1"}]}},
    "text": {"requests": [{"count": "2"}]},
    "no object": [],
    "null": None,
    "too large": {"guest": {"cells": [{"id": 0, "cpuset": list(range(2000))}]}},
}


@pytest.mark.parametrize("demand", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("field", ["demand", "needs"])
def test_a_demand_that_cannot_be_read_is_left_out_and_the_placement_counts(one, field, demand):
    entry = {"instance": "i1", "node": H1, "columns": {"vcpus_used": 1}, field: demand}
    written = {"version": 1, "kind": "intent", "sender": "s", "counter": 0, "time": 0, "entries": [entry]}
    message = decode(json.dumps([written]))
    assert message.faults == []
    one.shared.apply(*message.records)
    assert (one.on(0), one.demands_on(0)) == ([0, 0, 1, 0, 0], [])


def test_a_record_of_an_earlier_release_counts_by_its_amounts(one):
    needs = {"cells": [{"id": 0, "cpuset": [0, 1], "memory": 512}], "devices": [{"count": 1}]}
    entry = {"instance": "i1", "node": H1, "columns": {"vcpus_used": 2}, "needs": needs}
    written = {"version": 1, "kind": "claimed", "sender": "s", "counter": 0, "time": 0, "entries": [entry]}
    one.shared.apply(*decode(json.dumps([written])).records)
    assert (one.on(0), one.demands_on(0)) == ([0, 0, 2, 0, 0], [])


NO_ROOM = {
    "too large": InstanceDemand(guest(*(pinned(number, vcpus=500) for number in range(4)))),
    "no Unicode": InstanceDemand(requests=(make_request(1, [{}], alias_name="\ud800"),)),
}


@pytest.mark.parametrize("demand", NO_ROOM.values(), ids=NO_ROOM)
def test_a_demand_that_has_no_room_is_not_published_and_the_placement_is(one, another, demand):
    one.reserve_demand("i1", 0, demand)
    assert another.demands_on(0) == []
    assert another.on(0) == ONE.tolist()
