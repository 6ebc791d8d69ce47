"""Replay of golden cases through the real filters, on hosts in a view (spec: numa-and-pci 7).

How a filter is called is known to ``tests.unit.filters.asking`` alone. Cases of several instances (``op`` boot) go
through the real driver, as in the comparison with a nova release.
"""

import json
from types import SimpleNamespace

from scheduler.filters.numa_topology_filter import NUMATopologyFilter
from scheduler.filters.pci_passthrough_filter import PciPassthroughFilter
from scheduler.numa.loading import load_topology
from scheduler.objects import hydrate
from scheduler.pci.pools import load_pools
from tests.builders import make_host, make_view
from tests.golden import replay
from tests.integration.interop import numa_pci_berth
from tests.unit.filters.asking import make_conf, make_request, verdicts

FILTERS = {"NUMATopologyFilter": NUMATopologyFilter, "PciPassthroughFilter": PciPassthroughFilter}
RATIOS = {"cpu_allocation_ratio": 1.0, "ram_allocation_ratio": 1.0}


def run_filter(case):
    """Return the members of ``expect`` for a case of kind ``filter``."""
    mappings = [one["mappings"] for one in case["candidates"]]
    return _run(case, case["filters"], case["host"], case["request"], mappings)


def fit_cases():
    """Return the cases of kind ``fit`` that NUMATopologyFilter can be given: with guest cells and limits."""
    found = replay.cases("numa", "fit")
    return [p for p in found if p.values[0].get("limits") and p.values[0]["request"].get("numa_topology")]


def support_cases():
    """Return the cases of kind ``support`` without chosen NUMA cells, at which PciPassthroughFilter never looks."""
    return [p for p in replay.cases("pci", "support") if p.values[0]["numa_cells"] is None]


def run_fit(case):
    """Return whether the host of a case of kind ``fit`` passes."""
    given = case["limits"]["nova_object.data"]
    host = {**case["host"], **{name: given[name] for name in RATIOS}}
    request = {**case["request"], "network_metadata": given.get("network_metadata")}
    return _run(case, ["NUMATopologyFilter"], host, request, [case.get("provider_mapping")])["passes"]


def run_support(case):
    """Return whether the host of a case of kind ``support`` passes."""
    return _run(case, ["PciPassthroughFilter"], case["host"], case["request"], [case["provider_mapping"]])[
        "passes"
    ]


def run_boot(case):
    """Return the members of ``steps`` that the real driver shows for a case of kind ``boot``."""
    absent = dict.fromkeys(("numa_topology", "pci_requests", "network_metadata", "requested_groups"))
    hosts = [{**RATIOS, "numa_topology": None, "pci_stats": None, **host} for host in case["hosts"]]
    request = {**absent, "flavor": {"extra_specs": {}}, **case["request"]}
    packing = case.get("options", {}).get("pack_host_cells", False)
    whole = {**case, "hosts": hosts, "request": request, "options": {"pack_host_cells": packing}}
    return [_shown_step(step) for step in numa_pci_berth.boot(whole)["steps"]]


def _shown_step(step):
    if not step["passing"]:
        return {"passing": []}
    shown = {name: step[name] for name in ("passing", "cells", "usage", "pools")}
    return {**shown, "selected": step["passing"][0], "candidate": step["candidates_left"][0][0]}


def _run(case, names, host, request, mappings):
    conf = make_conf(
        compute__packing_host_numa_cells_allocation_strategy=case.get("options", {}).get(
            "pack_host_cells", False
        )
    )
    view, wanted = make_view([_host(host, mappings)]), _request(request)
    passes = all(verdicts(FILTERS[name](conf), view, wanted) == [True] for name in names)
    return {
        "passes": passes,
        "candidates_left": [one.number for one in view.candidates(0)],
        "limits": _shown_limits(view.limits(0).get("numa_topology")),
    }


def _host(stored, mappings):
    ratios = {**RATIOS, **stored}
    pools = stored.get("pci_stats")
    return (
        make_host("h")
        .numa(load_topology(replay.text(stored.get("numa_topology"))))
        .pci(None if pools is None else load_pools(replay.text(pools)))
        .ratios(cpu=ratios["cpu_allocation_ratio"], ram=ratios["ram_allocation_ratio"])
        .candidate(*(SimpleNamespace(number=i, mappings=mapping) for i, mapping in enumerate(mappings)))
    )


def _request(stored):
    names = ("numa_topology", "pci_requests", "network_metadata")
    members = {name: hydrate(stored[name]) for name in names if stored.get(name)}
    specs = stored.get("flavor", {}).get("extra_specs", {})
    return make_request(specs, stored.get("image_properties"), **members)


def _shown_limits(limits):
    return None if limits is None else json.loads(json.dumps(replay.slim(limits.obj_to_primitive())))
