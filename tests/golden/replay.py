"""Replay of golden cases through the pure functions (spec: numa-and-pci 7).

Each ``run_<op>`` returns the members of ``expect`` that Berth has for a case. ``filters.py`` replays through the
real filters and the driver.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from scheduler.numa import loading
from scheduler.numa.fit import Fitter
from scheduler.numa.guest import guest_topology_from
from scheduler.numa.topology import PinConflict, limits_from
from scheduler.numa.usage import consume
from scheduler.objects.base import Malformed
from scheduler.pci import pools as pci_pools
from scheduler.pci import support
from scheduler.pci.consumption import ChosenCells
from scheduler.pci.pools import PoolSet
from scheduler.pci.requests import requests_from

HERE = Path(__file__).parent


def cases(name, *ops):
    """Return the cases of these kinds in ``numa.jsonl`` or ``pci.jsonl``, as pytest parameters with ids."""
    lines = (HERE / f"{name}.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return [pytest.param(case, id=case["id"]) for case in found if case["op"] in ops]


def wire(primitive):
    """A primitive as an object with attributes; absent members stay absent."""
    if isinstance(primitive, dict) and "nova_object.data" in primitive:
        return SimpleNamespace(**{k: wire(v) for k, v in primitive["nova_object.data"].items()})
    if isinstance(primitive, list):
        return [wire(value) for value in primitive]
    return primitive


def text(primitive):
    return None if primitive is None else json.dumps(primitive)


def fitter_of(case):
    return Fitter(packing=case.get("options", {}).get("pack_host_cells", False))


# ---- results in the words of the cases


def shown_cells(guest):
    if guest is None:
        return None
    return [
        {
            "host_cell": cell.id,
            "pagesize": cell.pagesize,
            "pins": {str(vcpu): cpu for vcpu, cpu in cell.pins or ()},
            "reserved": sorted(cell.reserved or ()),
        }
        for cell in guest.cells
    ]


def shown_usage(host):
    if host is None:
        return None
    return [
        {
            "id": cell.id,
            "cpu_usage": cell.cpu_usage,
            "memory_usage": cell.memory_usage,
            "pinned_cpus": sorted(cell.pinned),
            "pages_used": {str(pool.size): pool.used for pool in cell.pages},
        }
        for cell in host.cells
    ]


def shown_core_use(host, guest):
    by_id = {cell.id: cell for cell in host.cells}
    return [_core_use(by_id[cell.id], cell) for cell in guest.cells]


def _core_use(host_cell, cell):
    pins, reserved = {cpu for _, cpu in cell.pins or ()}, cell.reserved or frozenset()
    return [
        {"core": sorted(core), "pins": len(core & pins), "reserved": len(core & reserved)}
        for core in host_cell.siblings
        if core & (pins | reserved)
    ]


def shown_pools(pools):
    return None if pools is None else [pool.flat() for pool in pools.pools]


# ---- operations


def run_fit(case):
    host = loading.load_topology(text(case["host"].get("numa_topology")))
    guest = guest_topology_from(wire(case["request"].get("numa_topology")))
    stored = case["host"].get("pci_stats")
    pools = None if stored is None else pci_pools.load_pools(text(stored))
    requests = requests_from(wire(case["request"].get("pci_requests")))
    limits = limits_from(wire(case.get("limits")))
    result = fitter_of(case).fit(host, guest, limits, pools, requests, case.get("provider_mapping"))
    return host, result, _fit_expectation(host, result)


def _fit_expectation(host, result):
    if not result:
        after = result.guest_after
        cells = [{"id": cell.id, "pagesize": cell.pagesize} for cell in after.cells] if after else None
        return {"fits": False, "request_after": cells}
    shown = {
        "fits": True,
        "cells": shown_cells(result.fitted),
        "core_use": shown_core_use(host, result.fitted),
    }
    try:
        return {**shown, "usage_after": shown_usage(consume(host, result.fitted))}
    except PinConflict:
        return {**shown, "usage_error": "CPUPinningInvalid"}


def check_filter(actual, case):
    """Compare what a run of a filter case returned with what nova said."""
    expect = case["expect"]
    if "error" in expect:
        assert not actual["passes"]
    else:
        assert actual == {**expect, "limits": slim(expect["limits"])}


def slim(primitive):
    """A primitive without its envelopes, sets in order."""
    if isinstance(primitive, dict) and "nova_object.data" in primitive:
        return slim(primitive["nova_object.data"])
    if isinstance(primitive, dict):
        return {key: slim(value) for key, value in primitive.items()}
    return sorted(primitive) if isinstance(primitive, list) else primitive


def run_support(case):
    pools = pci_pools.load_pools(text(case["host"]["pci_stats"]))
    topology = loading.load_topology(text(case["host"].get("numa_topology")))
    requests = requests_from(wire(case["request"]["pci_requests"]))
    chosen = ChosenCells(frozenset(case["numa_cells"] or ()), topology.sockets if topology else None)
    mapping = case["provider_mapping"]
    reason = support.unsupported_reason(pools, requests, mapping, chosen)
    after = support.apply_requests(pools, requests, mapping, chosen)
    assert after.reason == reason
    return {"supported": not reason, "pools_after_apply": shown_pools(after.pools)}


def run_weight(case):
    stored = case["host"].get("pci_stats")
    pools = PoolSet() if stored is None else pci_pools.load_pools(text(stored))
    return {"weight": 100 - min(pools.free_devices, 99)}


def run_load_pci(case):
    try:
        return {"pools": shown_pools(pci_pools.parse_pools(case["text"]))}
    except Malformed:
        return {"error": "MalformedPools"}


def run_load_numa(case):
    try:
        host = loading.parse_topology(case["text"])
    except Malformed:
        return {"error": "MalformedTopology"}
    return {"cells": [_loaded_cell(cell) for cell in host.cells]}


def _loaded_cell(cell):
    return {
        "id": cell.id,
        "cpuset": sorted(cell.cpuset),
        "pcpuset": sorted(cell.pcpuset),
        "free_pcpus": sorted(cell.free),
        "free_siblings": [list(core) for core in cell.free_cores],
        "avail_memory": cell.free_memory,
        "has_threads": cell.has_threads,
        "socket": cell.socket,
        "physnets": None if cell.network is None else sorted(cell.network.physnets),
        "pages_free": {str(pool.size): pool.free for pool in cell.pages},
    }
