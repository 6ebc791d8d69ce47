import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.numa.loading import load_topology, parse_topology
from scheduler.numa.topology import HostTopology, NumaNetworks, PagePool
from scheduler.objects.base import Malformed
from tests.support.wire_examples import envelope

PAGES = {"size_kb": 4, "total": 100, "used": 1, "reserved": 2}
CELL = {"id": 0, "cpuset": [0], "pcpuset": [1, 2], "memory": 64, "siblings": [[0, 1], [2], []], "socket": 3}


def stored(*cells, **more):
    listed = [envelope("NUMACell", cell) for cell in cells]
    return json.dumps(envelope("NUMATopology", {"cells": listed}, **more))


def cell(**changes):
    return {**CELL, **changes}


def test_fields_of_a_cell_are_read_and_unknown_ones_ignored():
    network = envelope("NetworkMetadata", {"physnets": ["a"], "tunneled": True})
    pages = [envelope("NUMAPagesTopology", PAGES)]
    loaded = parse_topology(
        stored(cell(network_metadata=network, mempages=pages, pinned_cpus=["2"], memory=64.0, future=1))
    ).cells[0]
    assert (loaded.memory, loaded.pinned) == (64, {2})
    assert loaded.siblings == (frozenset({0, 1}), frozenset({2}))
    assert loaded.free_cores == ((1,), ())
    assert loaded.network == NumaNetworks(frozenset({"a"}), tunneled=True)
    assert loaded.pages == (PagePool(4, 100, 1, 2),)
    assert loaded.pages[0].free == 97
    assert loaded.has_threads


def test_newer_minor_versions_are_read():
    newer = stored(cell()).replace('"1.0"', '"1.99"')
    assert parse_topology(newer) == parse_topology(stored(cell()))


@pytest.mark.parametrize("text", [None, "", "null", stored(), '{"cells": []}', "{}"])
def test_missing_and_empty_texts_mean_no_topology(text):
    assert parse_topology(text) is None


def test_what_old_computes_left_out_is_empty():
    bare = parse_topology(stored({"id": 4, "network_metadata": None})).cells[0]
    assert (bare.cpuset, bare.pcpuset, bare.pinned, bare.siblings, bare.pages) == (
        set(),
        set(),
        set(),
        (),
        (),
    )
    assert (bare.memory, bare.cpu_usage, bare.memory_usage, bare.network, bare.socket) == (
        0,
        0,
        0,
        None,
        None,
    )


def test_texts_from_before_versioned_objects_are_read():
    loaded = parse_topology(
        '{"cells": [{"id": 1, "cpus": "0-3,^2, 7", "mem": {"total": 9, "used": 4}, "cpu_usage": 2}]}'
    )
    assert loaded.cells[0].cpuset == {0, 1, 3, 7}
    assert (loaded.cells[0].free_memory, loaded.cells[0].cpu_usage) == (5, 2)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "it is not JSON"),
        ("7", "there is no NUMATopology where one belongs"),
        (stored(**{"nova_object.version": "2.0"}), "NUMATopology of unknown version '2.0'"),
        (stored(**{"nova_object.data": None}), "NUMATopology without data"),
        ('{"cells": 5}', "cells is not a list"),
        ('{"cells": [5]}', "a cell is not a map"),
        ('{"cells": [{"id": 0, "mem": 5}]}', "mem is not a map"),
        ('{"cells": [{"id": 0, "cpus": 5}]}', "cpus is not a text"),
        ('{"cells": [{"id": 0, "cpus": "0-4000000000"}]}', "cpus names CPU 4000000000"),
        (stored({"cpuset": []}), "id is missing"),
        (stored(cell(memory=None)), "memory is null"),
        (stored(cell(memory="much")), "memory is not a number: 'much'"),
        (stored(cell(memory=1.5)), "memory is not a whole number: 1.5"),
        (stored(cell(memory="9" * 400)), "memory is out of range"),
        (stored(cell(memory=-(1 << 63) - 1)), "memory is out of range"),
        (stored(cell(memory="x" * 4000)), f"memory is not a number: '{'x' * 39}"),
        (stored(cell(cpuset=None)), "cpuset is not a list"),
        (stored(cell(pcpuset=[-1])), "pcpuset names CPU -1"),
        (stored(cell(siblings=[3])), "siblings is not a list of CPU sets"),
        (stored(cell(siblings=[[1, 2], [2]])), "two cores share CPU 2"),
        (stored(cell(mempages=[envelope("NUMAPagesTopology", {**PAGES, "size_kb": 0})])), "size_kb is 0"),
        (stored(cell(), cell()), "two cells have the same id"),
        (stored(cell(), cell(id=1)), "two cells share CPU 0"),
    ],
)
def test_malformed_texts_are_refused_with_a_reason(text, reason):
    with pytest.raises(Malformed) as error:
        parse_topology(text)
    assert str(error.value) == reason
    assert load_topology(text) == HostTopology(problem=f"NUMA topology cannot be read: {reason}")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(("cells", "id", "cpus", "mem", "nova_object.name", "nova_object.data")), inner
            )
        ),
    )
)
def test_any_json_is_read_or_refused(value):
    assert load_topology(json.dumps(value)) is None or isinstance(
        load_topology(json.dumps(value)), HostTopology
    )


@given(st.text())
def test_any_text_is_read_or_refused(text):
    assert load_topology(text) is None or isinstance(load_topology(text), HostTopology)
