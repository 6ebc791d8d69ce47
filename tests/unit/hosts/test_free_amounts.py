"""What is left on a compute node by the host table and pending placements."""

from functools import partial

import numpy as np

from scheduler.hosts.free_amounts import free_amounts
from scheduler.hosts.pending import AMOUNTS, PendingPlacements
from tests.builders import make_host, make_table, uuid_of


def free(host, *pending):
    table, placements = make_table([make_host("other"), host]), PendingPlacements()
    for number, amounts in enumerate(pending):
        taken = np.array([amounts.get(name, 0) for name in AMOUNTS])
        placements.add(f"i{number}", table, table.row_of_uuid[uuid_of("h1")], taken)
    return partial(free_amounts, table, placements)


def test_the_overcommit_is_free():
    host = make_host("h1").ram(1000, 4000).disk(2048, 10).vcpus(8, used=3).ratios(cpu=2.0, ram=1.5, disk=1.5)
    assert free(host)(uuid_of("h1")) == {"VCPU": 13.0, "MEMORY_MB": 3000.0, "DISK_GB": 7.0}


def test_pending_placements_are_not_free_any_more():
    host = make_host("h1").ram(1000, 4000).disk(2048, 10).vcpus(8, used=3).ratios(cpu=2.0)
    taken = {"free_ram_mb": -300, "free_disk_mb": -1024, "vcpus_used": 2}
    assert free(host, taken, taken)(uuid_of("h1")) == {"VCPU": 9.0, "MEMORY_MB": 400.0, "DISK_GB": 0.0}


def test_nothing_is_known_of_a_provider_that_is_no_compute_node():
    assert free(make_host("h1"))("unknown") == {}
