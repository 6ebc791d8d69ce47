"""What operators' rules find in a NUMA topology and in PCI pools (spec: filters-and-weighers 1.12)."""

import copy
from types import SimpleNamespace

import pytest

from scheduler.hosts.nova_values import NumaTopology, PciStats
from scheduler.numa.topology import HostCell, HostTopology, NumaNetworks, PagePool
from scheduler.pci.pools import from_flat

CELL = HostCell(
    id=1,
    cpuset=frozenset({0, 1}),
    pcpuset=frozenset({2, 3, 4, 5}),
    memory=4096,
    cpu_usage=1,
    memory_usage=1024,
    pinned=frozenset({2, 3, 4}),
    siblings=(frozenset({2, 3}), frozenset({4, 5})),
    pages=(PagePool(4, 1000, 100, 50),),
    network=NumaNetworks(frozenset({"phys"}), tunneled=True),
    socket=0,
)
GPU = {"vendor_id": "10de", "product_id": "1eb8", "numa_node": 0, "count": 2, "rack": "7", "rp_uuid": "gpu"}
NIC = {"vendor_id": "8086", "product_id": "154d", "numa_node": None, "count": 1}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("id", 1),
        ("cpuset", {0, 1}),
        ("pcpuset", {2, 3, 4, 5}),
        ("pinned_cpus", {2, 3, 4}),
        ("free_pcpus", {5}),
        ("avail_pcpus", 1),
        ("siblings", [{2, 3}, {4, 5}]),
        ("free_siblings", [set(), {5}]),
        ("has_threads", True),
        ("cpu_usage", 1),
        ("memory", 4096),
        ("memory_usage", 1024),
        ("avail_memory", 3072),
        ("network_metadata", SimpleNamespace(physnets={"phys"}, tunneled=True)),
        ("socket", 0),
    ],
)
def test_cell(name, expected):
    (cell,) = NumaTopology(HostTopology((CELL,))).cells
    assert getattr(cell, name) == expected


def test_pages():
    (pages,) = NumaTopology(HostTopology((CELL,))).cells[0].mempages
    expected = {"size_kb": 4, "total": 1000, "used": 100, "reserved": 50}
    assert vars(pages) == {**expected, "free": 850, "free_kb": 3400, "total_kb": 4000}


@pytest.mark.parametrize(
    ("cells", "threads"), [((), False), ((CELL, HostCell(0)), True), ((HostCell(0),), False)]
)
def test_topology(cells, threads):
    topology = NumaTopology(HostTopology(cells))
    assert len(topology) == len(cells) == len(topology.cells)
    assert topology.has_threads is threads


def wanted(product, count=1, **members):
    return SimpleNamespace(
        spec=[{"product_id": product}], count=count, alias_name="a", request_id="r", **members
    )


def test_pools_are_flat_maps():
    assert PciStats(from_flat([NIC, GPU])).pools == [NIC, GPU]


@pytest.mark.parametrize(
    ("requests", "mapping", "cells", "fits"),
    [
        ([], None, None, True),
        ([wanted("1eb8")], None, None, True),
        ([wanted("1eb8", 3)], None, None, False),
        ([wanted("1eb8", 2), wanted("1eb8")], None, None, False),
        ([wanted("1eb8"), wanted("154d")], {}, None, True),
        ([wanted("1eb8")], {"r-0": ["gpu"]}, None, True),
        ([wanted("1eb8")], {"r-0": ["other"]}, None, False),
        ([wanted("1eb8", numa_policy="required")], None, [SimpleNamespace(id=0)], True),
        ([wanted("1eb8", numa_policy="required")], None, [SimpleNamespace(id=1)], False),
    ],
)
def test_requests(requests, mapping, cells, fits):
    stats = PciStats(from_flat([NIC, GPU]))
    assert stats.support_requests(requests, mapping, cells) is fits
    assert stats.support_requests(requests, provider_mapping=mapping, numa_cells=cells) is fits
    before = stats.pools
    taken = copy.deepcopy(stats)
    if fits:
        taken.apply_requests(requests, mapping, cells)
        assert sum(p["count"] for p in taken.pools) == 3 - sum(request.count for request in requests)
    else:
        with pytest.raises(ValueError, match=r"product|device"):
            taken.apply_requests(requests, mapping, cells)
    assert stats.pools == before
