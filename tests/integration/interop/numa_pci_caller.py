"""Run by nova's own Python: what nova makes of cases of NUMA and PCI fitting.

Reads a JSON list of cases (see numa_pci_cases.py) from standard input; prints the list of answers, as JSON on
the last line.
"""

import json
import logging
import sys
import uuid

CELL = "c0000000-0000-4000-8000-000000000001"


class Nova:
    """The parts of nova that are asked."""

    def __init__(self):
        from nova import config, context, objects
        import nova.conf
        from nova.pci import stats
        from nova.scheduler import host_manager
        from nova.scheduler.filters import numa_topology_filter, pci_passthrough_filter
        from nova.scheduler.weights import pci
        from nova.virt import hardware

        config.parse_args(["nova-scheduler"], default_config_files=[], configure_db=False, init_rpc=False)
        logging.disable(logging.CRITICAL)
        objects.register_all()
        self.conf, self.objects, self.context = nova.conf.CONF, objects, context.get_admin_context()
        self.stats, self.hardware, self.host_state = stats.PciDeviceStats, hardware, host_manager.HostState
        self.filters = {
            "NUMATopologyFilter": numa_topology_filter.NUMATopologyFilter(),
            "PciPassthroughFilter": pci_passthrough_filter.PciPassthroughFilter(),
        }
        self.weigher = pci.PCIWeigher()

    def read(self, primitive):
        return primitive and self.objects.base.NovaObject.obj_from_primitive(primitive, self.context)

    def pools(self, host, topology):
        stored = host.get("pci_stats")
        return None if stored is None else self.stats(topology, stats=self.read(stored))

    def use_options(self, case):
        packing = case["options"]["pack_host_cells"]
        self.conf.set_override("packing_host_numa_cells_allocation_strategy", packing, "compute")


def main():
    nova = Nova()
    answers = []
    for case in json.load(sys.stdin):
        nova.use_options(case)
        answers.append({"fit": fit, "support": support, "boot": boot}[case["op"]](nova, case))
    sys.stdout.write(json.dumps(answers) + "\n")


# ---- results in the words of the cases


def shown_cells(guest, pins="cpu_pinning_raw", reserved="cpuset_reserved"):
    """``pins`` and the like are the names that the attributes of a cell have."""
    if guest is None:
        return None
    return [
        {
            "host_cell": cell.id,
            "pagesize": cell.pagesize,
            "pins": {str(vcpu): cpu for vcpu, cpu in dict(getattr(cell, pins) or ()).items()},
            "reserved": sorted(getattr(cell, reserved) or ()),
        }
        for cell in guest.cells
    ]


def shown_usage(topology, pinned="pinned_cpus", pages="mempages", size="size_kb"):
    if topology is None:
        return None
    return [
        {
            "id": cell.id,
            "cpu_usage": cell.cpu_usage,
            "memory_usage": cell.memory_usage,
            "pinned_cpus": sorted(getattr(cell, pinned)),
            "pages_used": {str(getattr(pool, size)): pool.used for pool in getattr(cell, pages)},
        }
        for cell in topology.cells
    ]


def shown_limits(limits):
    if limits is None:
        return None
    shown = {name: getattr(limits, f"{name}_allocation_ratio") for name in ("cpu", "ram")}
    if "network_metadata" in limits:
        network = limits.network_metadata
        shown["physnets"] = sorted(network.physnets) if "physnets" in network else []
        shown["tunneled"] = "tunneled" in network and network.tunneled
    return shown


# ---- operations


def attempt(call, *arguments):
    """What nova returns, and None; or None, and what it raises."""
    try:
        return call(*arguments), None
    except Exception as error:  # noqa: BLE001 - whatever it is ends the call
        return None, repr(error)


def fit(nova, case):
    host, guest = nova.read(case["host"]["numa_topology"]), nova.read(case["request"]["numa_topology"])
    pools, requests = nova.pools(case["host"], host), nova.read(case["request"].get("pci_requests"))
    wanted = requests.requests if requests else None
    mapping, limits = case["provider_mapping"], nova.read(case["limits"])
    search = nova.hardware.numa_fit_instance_to_host
    fitted, error = attempt(search, host, guest, mapping, limits, wanted, pools)
    if error:
        return {"fits": False, "error": error}
    if not fitted:
        after = guest and [{"id": cell.id, "pagesize": cell.pagesize} for cell in guest.cells]
        return {"fits": False, "request_after": after}
    after, error = attempt(nova.hardware.numa_usage_from_instance_numa, host, fitted)
    usage = {"usage_error": error} if error else {"usage_after": shown_usage(after)}
    return {"fits": True, "cells": shown_cells(fitted), **usage}


def support(nova, case):
    topology = nova.read(case["host"]["numa_topology"])
    requests, mapping = nova.read(case["request"]["pci_requests"]).requests, case["provider_mapping"]
    cells = case["numa_cells"]
    if cells is not None:
        cells = [
            nova.objects.InstanceNUMACell(id=cell, cpuset=set(), pcpuset=set(), memory=1) for cell in cells
        ]
    pools = nova.pools(case["host"], topology)
    supported, error = attempt(pools.support_requests, requests, mapping, cells)
    if error:
        return {"supported": False, "error": error}
    attempt(pools.apply_requests, requests, mapping, cells)  # as far as it goes
    return {"supported": supported, "pools_after_apply": pools.pools}


def boot(nova, case):
    """Each instance in turn: filter those that are left, choose the first, consume."""
    spec = request_spec(nova, case["request"])
    states = [host_state(nova, number, host) for number, host in enumerate(case["hosts"])]
    alive, steps = states, []
    for _ in range(case["count"]):
        for name in case["filters"]:
            alive, error = attempt(passing, nova.filters[name], alive, spec)
            if error:
                return {"steps": steps, "error": error}
        steps.append({"passing": [state.number for state in alive]})
        if not alive:
            break
        steps[-1].update(take_first(nova, alive, spec))
    return {"steps": steps}


def passing(rule, states, spec):
    return list(rule.filter_all(states, spec))


def take_first(nova, alive, spec):
    chosen = alive[0]
    candidate = chosen.allocation_candidates[0]
    left = [[one["number"] for one in state.allocation_candidates] for state in alive]
    limits = shown_limits(chosen.limits.get("numa_topology"))
    for group in spec.requested_resources or ():
        group.provider_uuids = candidate["mappings"][group.requester_id]
    chosen.consume_from_request(spec)
    return {
        "candidates_left": left,
        "limits": limits,
        "cells": shown_cells(spec.numa_topology),
        "usage": shown_usage(chosen.numa_topology),
        "pools": None if chosen.pci_stats is None else [dict(pool) for pool in chosen.pci_stats.pools],
        "weight": nova.weigher._weigh_object(chosen, {}),
    }


def host_state(nova, number, host):
    state = nova.host_state(f"h{number}", f"h{number}", CELL)
    state.update(compute=compute_node(nova, number, host))
    if host["pci_stats"] is None:
        state.pci_stats = None
    candidates = enumerate(host["candidates"])
    state.number = number
    state.allocation_candidates = [{"number": i, **candidate} for i, candidate in candidates]
    state.limits = {}
    return state


def compute_node(nova, number, host):
    topology = host["numa_topology"]
    sizes = dict.fromkeys(("vcpus", "memory_mb", "local_gb", "free_ram_mb", "free_disk_gb"), 100000)
    used = dict.fromkeys(("vcpus_used", "memory_mb_used", "local_gb_used", "hypervisor_version"), 0)
    ratios = {f"{name}_allocation_ratio": host[f"{name}_allocation_ratio"] for name in ("cpu", "ram")}
    return nova.objects.ComputeNode(
        id=number,
        uuid=str(uuid.uuid4()),
        host=f"h{number}",
        hypervisor_hostname=f"h{number}",
        hypervisor_type="QEMU",
        host_ip="127.0.0.1",
        disk_available_least=None,
        disk_allocation_ratio=1.0,
        cpu_info=None,
        metrics=None,
        stats={},
        supported_hv_specs=[],
        updated_at=None,
        created_at=None,
        numa_topology=topology and json.dumps(topology),
        pci_device_pools=nova.read(host["pci_stats"]),
        **sizes,
        **used,
        **ratios,
    )


def request_spec(nova, request):
    objects = nova.objects
    flavor = objects.Flavor(
        vcpus=1,
        memory_mb=1,
        root_gb=0,
        ephemeral_gb=0,
        swap=0,
        extra_specs=dict(request["flavor"]["extra_specs"]),
    )
    groups = request["requested_groups"]
    spec = objects.RequestSpec(
        flavor=flavor,
        image=objects.ImageMeta(properties=objects.ImageMetaProps(**request.get("image_properties", {}))),
        numa_topology=nova.read(request["numa_topology"]),
        pci_requests=nova.read(request["pci_requests"]),
        instance_group=None,
        instance_uuid=str(uuid.uuid4()),
        scheduler_hints={},
        requested_resources=None
        if groups is None
        else [objects.RequestGroup(requester_id=group) for group in groups],
    )
    if request["network_metadata"]:
        spec.network_metadata = nova.read(request["network_metadata"])
    return spec


if __name__ == "__main__":
    main()
