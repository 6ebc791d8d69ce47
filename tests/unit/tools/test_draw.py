"""What is drawn is what real fleets have, and the same again."""

from collections import Counter
from dataclasses import fields
import random

import pytest

from tools.rig.draw import ANY_LIMITS, Kinds, draw, draw_request, read, saved
from tools.rig.fleet import Cell
from tools.rig.memory import host_table
from tools.rig.wanted import Wanted

CELLS = Cell("cell1", ""), Cell("cell2", "")
LARGE = Kinds((3, 300), also=frozenset({"memory steps", "forced", "hints", "cells", "soft"}))
CLOUDS = 150


@pytest.fixture(scope="module")
def drawn():
    found = []
    for seed in range(CLOUDS):
        rng = random.Random(seed)
        fleet = draw(rng, CELLS, LARGE)
        found.append((fleet, draw_request(rng, fleet, LARGE)))
    return found


def test_the_same_again(drawn):
    for seed, (fleet, wanted) in enumerate(drawn[:20]):
        rng = random.Random(seed)
        again = draw(rng, CELLS, LARGE)
        assert saved(again, draw_request(rng, again, LARGE)) == saved(fleet, wanted)


def test_a_saved_cloud_is_read_as_it_was(drawn):
    for fleet, wanted in drawn[:20]:
        again, request = read(saved(fleet, wanted), CELLS)
        assert request == wanted
        assert again.providers() == fleet.providers()
        assert [(each.uuid, each.host) for each in again.placed] == [
            (each.uuid, each.host) for each in fleet.placed
        ]


def test_clouds_have_what_real_fleets_have(drawn):
    seen = Counter()
    for fleet, _ in drawn:
        hosts, machines = fleet.hosts, [host.hardware for host in fleet.hosts]
        seen["small"] += len(hosts) <= ANY_LIMITS
        seen["large"] += len(hosts) > 60
        seen["kinds of hardware"] += len({each.threads for each in machines}) > 1
        seen["memory of each host"] += len({each.memory_mb for each in machines}) > len(hosts) // 3
        seen["hosts without disk"] += not all(each.own_disk for each in machines)
        seen["pool"] += bool(fleet.pool_gb)
        seen["isolated"] += any(each.name == "isolated" for each in fleet.aggregates)
        seen["dedicated CPUs"] += any(each.dedicated for each in machines)
        seen |= Counter(dict.fromkeys((name for each in machines for name in each.limits), 1))
        for what in ("vgpus", "devices", "traits"):
            seen[what] += any(getattr(host, what) for host in hosts)
        for state in ("disabled", "down"):
            seen[state] += any(host.state == state for host in hosts)
        seen["instances"] += bool(fleet.placed)
    rare = {name: count for name, count in seen.items() if count < CLOUDS // 25 and not name.isupper()}
    assert not rare
    assert {"VCPU", "MEMORY_MB", "DISK_GB"} <= seen.keys()


def test_each_wish_is_drawn(drawn):
    usual = Wanted()
    seen = {
        each.name
        for _, wanted in drawn
        for each in fields(wanted)
        if getattr(wanted, each.name) != getattr(usual, each.name)
    }
    assert seen == {each.name for each in fields(Wanted)}


def test_limits_of_large_clouds_are_those_of_a_kind_of_hardware(drawn):
    for fleet, _ in drawn:
        if len(fleet.hosts) <= ANY_LIMITS:
            continue
        kinds = {}
        for host in fleet.hosts:
            machine = host.hardware
            kinds.setdefault(machine.threads, set()).add(
                (str(machine.limits), machine.cpu_ratio, machine.disk_gb)
            )
            assert "MEMORY_MB" not in machine.limits or machine.memory_mb % 8192 == 0
        assert 2 <= len(kinds) <= 4
        assert {len(each) for each in kinds.values()} == {1}


def test_instances_have_room(drawn):
    for fleet, _ in drawn:
        for host, held in fleet.held().items():
            for name, fields_ in host.hardware.inventories.items():
                used = sum(each.amounts[name] for each in held if name in each.amounts)
                room = (fields_["total"] - fields_.get("reserved", 0)) * fields_.get("allocation_ratio", 1.0)
                assert used <= room


def test_a_table_in_memory_has_what_the_databases_would_have(drawn):
    fleet, _ = drawn[0]
    table = host_table(fleet)
    assert [row.uuid for row in table.rows] == [host.uuid for host in fleet.hosts]
    assert [each.disabled for each in table.services] == [host.state == "disabled" for host in fleet.hosts]
    assert table.totals([fleet.hosts[0].uuid], ["MEMORY_MB"]).tolist() == [
        [fleet.hosts[0].hardware.memory_mb]
    ]
    assert [row.num_instances for row in table.rows] == [len(held) for held in fleet.held().values()]
