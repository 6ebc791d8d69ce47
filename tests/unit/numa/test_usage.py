from dataclasses import replace

from hypothesis import given
import pytest

from scheduler.numa.fit import fit
from scheduler.numa.topology import PinConflict
from scheduler.numa.usage import consume
from tests.unit.numa.shapes import guest, guests, host, host_cell, hosts, limits, pinned


@given(hosts(), guests(), limits())
def test_a_guest_is_charged_to_its_own_cells(topology, wanted, bounds):
    found = fit(topology, wanted, bounds)
    if not found:
        return
    try:
        charged = consume(topology, found.fitted)
    except PinConflict:
        return
    taken = {cell.id: cell for cell in found.fitted.cells}
    for before, after in zip(topology.cells, charged.cells, strict=True):
        cell = taken.get(before.id)
        assert after.cpu_usage - before.cpu_usage == (len(cell.cpuset) if cell else 0)
        assert after.memory_usage - before.memory_usage == (cell.memory if cell else 0)
        assert cell or after == before


@given(hosts(), guests(alike=True))
def test_guest_after_guest_stays_within_the_host(topology, wanted):
    for _ in range(6):
        found = fit(topology, wanted)
        if not found:
            break
        charged = consume(topology, found.fitted)
        for before, after in zip(topology.cells, charged.cells, strict=True):
            assert before.pinned <= after.pinned <= after.pcpuset
        topology = charged


def test_a_guest_is_charged_to_a_cell_without_pages():
    """Nova fails to charge it (spec: numa-and-pci 3.12)."""
    bare = host(host_cell(0, pages=()))
    charged = consume(bare, fit(bare, guest(pinned())).fitted).cells[0]
    assert (charged.pinned, charged.memory_usage) == ({0, 1}, 512)


def test_isolate_with_pins_of_another_host_cell_charges_no_cpus():
    """A remembered verdict moves a guest cell and leaves its pins where they were (spec: numa-and-pci 3.13)."""
    smt = host_cell(0, threads=2)
    legacy = host(replace(smt, cpuset=smt.pcpuset))
    stale = guest(pinned(vcpus=1, thread_policy="isolate", pins=((0, 900),)))
    charged = consume(legacy, stale).cells[0]
    assert (charged.pinned, charged.memory_usage) == (frozenset(), 512)


def test_isolate_charges_whole_cores_in_place_of_the_pinned_cpus():
    legacy = host(host_cell(0, cpus=2, siblings=(frozenset({0}),)))
    partly_stale = guest(pinned(thread_policy="isolate", pins=((0, 0), (1, 900))))
    assert consume(legacy, partly_stale).cells[0].pinned == {0}


def test_pins_of_another_host_cell_are_refused_without_isolate():
    stale = guest(pinned(vcpus=1, pins=((0, 900),)))
    with pytest.raises(PinConflict, match="CPUs 900 of NUMA cell 0 are not free"):
        consume(host(host_cell(0)), stale)


def test_cpus_in_use_are_not_consumed():
    topology = host(host_cell(0))
    fitted = fit(topology, guest(pinned())).fitted
    with pytest.raises(PinConflict, match="CPUs 0, 1 of NUMA cell 0 are not free"):
        consume(consume(topology, fitted), fitted)
