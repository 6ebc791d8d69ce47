"""Random cases of NUMA and PCI fitting (spec: numa-and-pci 7).

``make(seed, number)`` always gives the same case. Amounts are few and coarse, so that hosts are nearly full, and guests
fit about every other time.
"""

import json
import random
import uuid

from tests.support.wire_examples import envelope

NAMES = uuid.UUID("c0000000-0000-4000-8000-000000000000")
SMALL_SIZES = (
    (4,),
    (4,),
    (4, 2048),
    (4, 2048),
    (4, 2048, 1 << 20),
    (4, 1 << 20),
    (2048, 1 << 20),
    (64, 2048),
)
RATIOS = (0.5, 1.0, 1.0, 1.5, 1.5, 4.0, 16.0)
MOST_POOLS = 8
PHYSNETS = ("a", "b", "c")
CARDS = (("8086", "154d"), ("8086", "154d"), ("8086", "10ed"), ("15b3", "1018"))


def make(seed, number):
    rng = random.Random(f"{seed}-{number}")
    op = rng.choice(("fit", "fit", "boot", "boot", "support"))
    case = {"fit": _fit, "boot": _boot, "support": _support}[op](rng)
    packing = {"pack_host_cells": rng.random() < 0.3}
    return {"id": f"{seed}-{number}", "op": op, "options": packing, **case}


def _obj(name, version, **data):
    return envelope(name, data, version)


def _some(rng, values, most=None):
    values = list(values)
    return rng.sample(values, rng.randint(0, min(len(values), most or len(values))))


# ---- hosts


def host_topology(rng, **members):
    """A host; ``members`` settle some of its shape."""
    count = rng.choice((1, 1, 2, 2, 2, 3, 4, 4))
    ids = rng.choice((range(count), range(count), range(count), range(0, 8 * count, 8), range(count)[::-1]))
    threads = rng.choice((1, 1, 2, 2, 2, 4))
    shape = {
        "threads": threads,
        "cores": rng.randint(1, 8 if threads < 4 else 4),
        "idle": rng.random() < 0.4,
        "apart": rng.random() < 0.5,
        "kind": rng.choice(("shared", "legacy", "legacy", "dedicated", "dedicated", "cores", "threads")),
        "sizes": rng.choice(SMALL_SIZES),
        "sockets": rng.choice(("own", "own", "pairs", "one", "unknown", "partly")),
        "networks": rng.random() < 0.4,
        **members,
    }
    made = [_host_cell(rng, number, id_, count, shape) for number, id_ in enumerate(ids)]
    return _obj("NUMATopology", "1.2", cells=made)


def _host_cell(rng, number, id_, count, shape):
    cores = _cores(rng, number, count, shape)
    cpuset, pcpuset = _cpu_sets(rng, cores, shape["kind"])
    if rng.random() < 0.15:
        rng.shuffle(cores)
    known = [sorted(cpu for cpu in core if cpu in cpuset or cpu in pcpuset) for core in cores]
    pages, memory = _memory(rng, shape["sizes"] if rng.random() < 0.9 else rng.choice(SMALL_SIZES), shape)
    pinned, floating, used = [], 0, 0
    if not shape["idle"]:
        pinned = rng.choice(([], _some(rng, sorted(pcpuset)), _whole_cores(rng, cores, pcpuset)))
        floating = rng.choice((0, rng.randint(0, 2 * len(cpuset))))
        used = rng.choice((0, 512 * rng.randint(0, memory // 512 + 1)))
    return _obj(
        "NUMACell",
        "1.5",
        id=id_,
        cpuset=sorted(cpuset),
        pcpuset=sorted(pcpuset),
        memory=memory,
        cpu_usage=floating,
        memory_usage=used,
        pinned_cpus=sorted(pinned),
        siblings=[core for core in known if core],
        mempages=pages,
        socket=_socket(rng, number, shape["sockets"]),
        **_near_networks(rng, shape["networks"]),
    )


def _cores(rng, number, count, shape):
    """CPU ids core by core; threads of a core have neighbouring ids, or are a whole host's cores apart."""
    threads, cores = shape["threads"], shape["cores"]
    if not shape["apart"]:
        first = number * cores * threads
        made = [list(range(at, at + threads)) for at in range(first, first + cores * threads, threads)]
    else:
        made = [[number * cores + core + cores * count * t for t in range(threads)] for core in range(cores)]
    for core in made:
        if len(core) > 1 and rng.random() < 0.05:
            core.pop()  # a thread that is switched off
    return made


def _cpu_sets(rng, cores, kind):
    every = {cpu for core in cores for cpu in core}
    if kind == "threads":
        dedicated = {core[0] for core in cores}
    elif kind == "cores":
        dedicated = {cpu for core in cores[: rng.randint(0, len(cores))] for cpu in core}
    else:
        dedicated = set() if kind == "shared" else every
    return (every if kind == "legacy" else every - dedicated), dedicated


def _whole_cores(rng, cores, pcpuset):
    return [cpu for core in _some(rng, cores) for cpu in core if cpu in pcpuset]


def _memory(rng, sizes, shape):
    """Page pools and all their memory in MiB, in steps of half a GiB but for one odd pool in ten."""
    pages, memory = [], 0
    for size in sizes:
        step = max(512, size // 1024)
        steps = rng.randint(1, 12) if step == 512 else rng.randint(0, 4)
        used, reserved = (rng.choice((0, rng.randint(0, steps))) for _ in range(2))
        if shape["idle"]:
            used, reserved = 0, 0
        total, used, reserved = (amount * step * 1024 // size for amount in (steps, used, reserved))
        if rng.random() < 0.1:
            used += 1
        pages.append(
            _obj("NUMAPagesTopology", "1.1", size_kb=size, total=total, used=used, reserved=reserved)
        )
        memory += steps * step
    rng.shuffle(pages)
    return pages, memory


def _near_networks(rng, declared):
    """Cells of long ago say nothing of networks."""
    if declared and rng.random() < 0.15:
        return {}
    physnets, tunneled = (_some(rng, PHYSNETS), rng.random() < 0.3) if declared else ([], False)
    return {"network_metadata": _obj("NetworkMetadata", "1.0", physnets=physnets, tunneled=tunneled)}


def _socket(rng, number, sockets):
    known = {"own": number, "pairs": number // 2, "one": 0, "unknown": None}
    return known.get(sockets, rng.choice((None, number, 0)))


# ---- guests


def guest_topology(rng, host=None, **members):
    """A guest; mostly one that could be on the host. ``members`` settle what its cells have in common."""
    cells = [cell["nova_object.data"] for cell in host["nova_object.data"]["cells"]] if host else []
    count = rng.choice((1, 1, 1, 1, 1, 2, 2, 2, 3, 4))
    policies = [None, "shared", "dedicated", "dedicated", "mixed"]
    if cells and rng.random() < 0.9:
        count = min(count, len(cells))
        if not any(cell["pcpuset"] for cell in cells):
            policies = [None, "shared"]
        elif not any(cell["cpuset"] for cell in cells):
            policies = ["dedicated"]
    policy = members.get("policy", rng.choice(policies))
    common = {
        "policy": policy,
        "threads": rng.choice((None, None, None, "prefer", "require", "isolate")) if policy else None,
        "vcpus": rng.choice((1, 2, 2, 3)),
        "memory": rng.choice((256, 512, 512, 1024)),
        "pagesize": rng.choice((None, None, None, None, -1, -2, -3, -3, 4, 2048, 1 << 20)),
        "alike": rng.random() < 0.4,
        "emulator": rng.choice((None, None, "share", "isolate", "isolate")) if policy else None,
        **members,
    }
    cells, first = [], 0
    for number in range(count):
        vcpus = common["vcpus"] if common["alike"] else rng.randint(1, 3)
        cells.append(_guest_cell(rng, number, range(first, first + vcpus), common))
        first += vcpus
    return _obj("InstanceNUMATopology", "1.3", cells=cells, emulator_threads_policy=common["emulator"])


def _guest_cell(rng, number, vcpus, common):
    floating = {"dedicated": 0, "mixed": rng.randint(0, len(vcpus))}.get(common["policy"], len(vcpus))
    memory, pagesize = common["memory"], common["pagesize"]
    if not common["alike"]:
        memory = rng.choice((256, 512, 512, 512, 768, 1024, 1500, 2048))
        pagesize = rng.choice((pagesize, pagesize, pagesize, -2, -3))
    return _obj(
        "InstanceNUMACell",
        "1.6",
        id=number,
        cpuset=list(vcpus[:floating]),
        pcpuset=list(vcpus[floating:]),
        cpuset_reserved=None,
        memory=memory,
        pagesize=pagesize,
        cpu_pinning_raw=None,
        cpu_policy=common["policy"],
        cpu_thread_policy=common["threads"],
    )


def _networks(rng):
    members = {"physnets": _some(rng, (*PHYSNETS, "x"), 2), "tunneled": rng.random() < 0.4}
    if rng.random() < 0.1:
        del members[rng.choice(("physnets", "tunneled"))]
    return _obj("NetworkMetadata", "1.0", **members)


def _limits(rng):
    if rng.random() < 0.15:
        return None
    ratios = {"cpu_allocation_ratio": rng.choice(RATIOS), "ram_allocation_ratio": rng.choice(RATIOS)}
    networks = {"network_metadata": _networks(rng)} if rng.random() < 0.4 else {}
    return _obj("NUMATopologyLimits", "1.1", **ratios, **networks)


# ---- devices


def pool_list(rng, nodes, host=0):
    pools = [
        _pool(rng, nodes, f"{host}-{number}") for number in range(rng.choice((0, 1, 2, 3, 4, 6, MOST_POOLS)))
    ]
    return _obj("PciDevicePoolList", "1.1", objects=pools)


def _pool(rng, nodes, name):
    vendor, product = rng.choice(CARDS)
    return _obj(
        "PciDevicePool",
        "1.1",
        vendor_id=vendor,
        product_id=product,
        numa_node=rng.choice((None, *nodes, *nodes, 99)),
        count=rng.choice((0, 1, 2, 2, 3, 4)),
        tags=_tags(rng, name),
    )


def _tags(rng, name):
    tags = {"dev_type": rng.choice(("type-PCI", "type-PCI", "type-VF", "type-VF", "type-PF", "vdpa"))}
    if rng.random() < 0.5:
        tags["address"] = f"0000:{rng.randint(0, 99):02}:00.0"
    if rng.random() < 0.6:
        tags["rp_uuid"] = provider(name if rng.random() < 0.9 else "shared")
    if tags["dev_type"] != "type-PCI" or rng.random() < 0.1:
        tags["remote_managed"] = rng.choice(("false", "false", "false", "true", "True", "1"))
    optional = {
        "physical_network": ("a", "a", "b", "A", None),
        "trusted": ("true", "false"),
        "live_migratable": ("true", "false", "True"),
        "managed": ("true", "false"),
        "one_time_use": ("true", "false"),
        "parent_ifname": ("eth0",),
    }
    for key, values in optional.items():
        if rng.random() < 0.25:
            tags[key] = rng.choice(values)
    return tags


def provider(name):
    return str(uuid.uuid5(NAMES, f"provider {name}"))


def pci_requests(rng, pools, least=0):
    """Requests, most of them for what one of the pools has."""
    count = rng.choice((0, 1, 1, 1, 1, 2, 3)) or least
    stored = [pool["nova_object.data"] for pool in pools["nova_object.data"]["objects"]] if pools else []
    requests = []
    for number in range(count):
        aim = rng.choice(stored) if stored and rng.random() < 0.8 else None
        requests.append(_pci_request(rng, number, aim))
    return _obj("InstancePCIRequests", "1.1", requests=requests)


def _pci_request(rng, number, aim):
    is_port = "remote_managed" in aim["tags"] if aim else rng.random() < 0.3
    is_port = is_port and rng.random() < 0.7
    specs = [_aimed_spec(rng, aim, is_port)] if aim else [_port_spec(rng) if is_port else _flavor_spec(rng)]
    if not is_port and rng.random() < 0.2:
        specs.insert(rng.randint(0, 1), _flavor_spec(rng))
    return _obj(
        "InstancePCIRequest",
        "1.4",
        count=1 if is_port else rng.choice((1, 1, 1, 2, 3, 0)),
        spec=specs,
        alias_name=None if is_port else f"alias{number}",
        is_new=False,
        request_id=str(uuid.uuid5(NAMES, f"request {number}")),
        requester_id=str(uuid.uuid5(NAMES, f"port {number}")) if is_port else None,
        numa_policy=rng.choice(("legacy", "legacy", "required", "preferred", "preferred", "socket", None)),
    )


def _aimed_spec(rng, pool, is_port):
    """A description of a pool, not always a whole or an exact one."""
    tags = pool["tags"]
    if is_port:
        spec = {key: tags.get(key) for key in ("physical_network", "remote_managed", "dev_type")}
        if spec["dev_type"] not in ("type-PF", "vdpa"):
            del spec["dev_type"]
    else:
        keys = ("vendor_id", "product_id", "dev_type", "live_migratable")
        spec = {key: value for key in keys if (value := pool.get(key, tags.get(key)))}
        for key in _some(rng, spec, 2 if spec["dev_type"] in ("type-PCI", "type-VF") else 0):
            del spec[key]
    return {key: value.upper() if value and rng.random() < 0.1 else value for key, value in spec.items()}


def _flavor_spec(rng):
    spec = {}
    if rng.random() < 0.8:
        spec["vendor_id"] = rng.choice(("8086", "8086", "8086", "15b3", "15B3"))
    if rng.random() < 0.4:
        spec["product_id"] = rng.choice(("154d", "154d", "154D", "10ed", "1018"))
    if rng.random() < 0.3:
        spec["dev_type"] = rng.choice(
            ("type-PCI", "type-PCI", "type-VF", "type-VF", "type-PF", "vdpa", "TYPE-PF")
        )
    if rng.random() < 0.3:
        spec["live_migratable"] = rng.choice(("true", "false", "True"))
    if rng.random() < 0.15:
        spec[rng.choice(("resource_class", "traits"))] = "CUSTOM_GPU"
    if rng.random() < 0.1:
        spec["rp_uuids"] = ",".join(provider(f"0-{pool}") for pool in range(rng.randint(1, 2)))
    return spec


def _port_spec(rng):
    spec = {
        "physical_network": rng.choice(("a", "b", "A", None, None)),
        "remote_managed": rng.choice(("False", "False", "False", "False", "True", "1")),
    }
    if rng.random() < 0.3:
        spec["dev_type"] = rng.choice(("type-PF", "vdpa"))
    if rng.random() < 0.2:
        spec["trusted"] = rng.choice(("True", "False"))
    return spec


def _groups(requests):
    """The placement groups of the requests, one for each device of an alias, and what each is to have."""
    groups = {}
    for request in requests["nova_object.data"]["requests"]:
        wanted = request["nova_object.data"]
        for number in range(wanted["count"] if wanted["alias_name"] else 0):
            groups[f"{wanted['request_id']}-{number}"] = wanted["spec"][0]
    return groups


def _mapping(rng, groups, pools):
    """A provider for each group: mostly one whose pool is of the vendor and product that are wanted."""
    stored = [pool["nova_object.data"] for pool in pools["nova_object.data"]["objects"]] if pools else []
    known = [pool for pool in stored if "rp_uuid" in pool["tags"]]
    mapping = {}
    for group, spec in groups.items():
        fitting = [pool for pool in known if _looks_like(pool, spec)] or known
        wanted = rng.choice(fitting)["tags"]["rp_uuid"] if fitting and rng.random() < 0.9 else None
        mapping[group] = [wanted or provider("unknown"), *_some(rng, (provider("0-0"), provider("0-1")))]
    if rng.random() < 0.3:
        mapping[provider("port")] = [provider("0-0")]  # bandwidth of a port, say
    return mapping


def _looks_like(pool, spec):
    return all(spec.get(key, pool[key]).lower() == pool[key] for key in ("vendor_id", "product_id"))


# ---- cases

# What chance alone would bring up too seldom: (shape of hosts, members of guests).
WHOLE_CORES = (
    {"kind": "legacy", "threads": 2, "cores": 4},
    {"policy": "dedicated", "threads": "isolate", "emulator": "isolate", "pagesize": None, "alike": True},
)
ANY_PAGES = (
    {"idle": True, "kind": "legacy", "networks": False},
    {"policy": None, "threads": None, "pagesize": -3, "alike": True},
)

PAGES_BY_CELL = (
    {"idle": True, "kind": "shared", "networks": False},
    {"policy": "shared", "threads": None, "pagesize": -2, "alike": False},
)


def _nodes(topology):
    return [cell["nova_object.data"]["id"] for cell in topology["nova_object.data"]["cells"]]


def _fit(rng):
    on_host, of_guest = rng.choice((*([({}, {})] * 5), WHOLE_CORES))
    topology = host_topology(rng, **on_host)
    host = {"numa_topology": topology}
    request = {"numa_topology": guest_topology(rng, topology, **of_guest)}
    case = {"host": host, "request": request, "limits": _limits(rng), "provider_mapping": None}
    if rng.random() < 0.5:
        host["pci_stats"] = pools = pool_list(rng, _nodes(topology))
        request["pci_requests"] = requests = pci_requests(rng, pools)
        if rng.random() < 0.4:
            case["provider_mapping"] = _mapping(rng, _groups(requests), pools)
    if rng.random() < 0.1:
        _odd(rng, topology)
    if rng.random() < 0.1:
        _fitted_before(rng, request["numa_topology"])
    return case


def _odd(rng, topology):
    """A cell without siblings or without pages."""
    rng.choice(topology["nova_object.data"]["cells"])["nova_object.data"][
        rng.choice(("siblings", "mempages"))
    ] = []


def _fitted_before(rng, guest):
    """A guest that still has what another fit gave it."""
    cells = [cell["nova_object.data"] for cell in guest["nova_object.data"]["cells"]]
    for cell, number in zip(cells, rng.sample(range(8), len(cells)), strict=True):
        cell["id"] = number
        if cell["pcpuset"]:
            cell["cpu_pinning_raw"] = {str(vcpu): vcpu + 1 for vcpu in cell["pcpuset"]}
            cell["cpuset_reserved"] = rng.choice((None, [0]))


def _support(rng):
    topology = host_topology(rng) if rng.random() < 0.8 else None
    nodes = _nodes(topology) if topology else []
    pools = pool_list(rng, nodes)
    requests = pci_requests(rng, pools, 1)
    mapping = _mapping(rng, _groups(requests), pools) if rng.random() < 0.5 else None
    cells = sorted(_some(rng, nodes, 2)) if rng.random() < 0.6 else None
    return {
        "host": {"numa_topology": topology, "pci_stats": pools},
        "request": {"pci_requests": requests},
        "provider_mapping": mapping,
        "numa_cells": cells,
    }


def _boot(rng):
    on_host, of_guest = rng.choice((({}, {}), ({}, {}), ANY_PAGES, PAGES_BY_CELL))
    hosts = _hosts(rng, on_host)
    requests = pci_requests(rng, hosts[0]["pci_stats"]) if rng.random() < 0.7 else None
    groups = _groups(requests) if requests and rng.random() < 0.5 else None
    for number, host in enumerate(hosts):
        host["candidates"] = [
            {"mappings": {"": [provider(f"node {number}")], **_mapping(rng, groups or {}, host["pci_stats"])}}
            for _ in range(rng.choice((1, 1, 2, 3)))
        ]
    filters = ["NUMATopologyFilter", "PciPassthroughFilter"]
    rng.shuffle(filters)
    policy = rng.choice(({}, {}, {}, {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"}))
    return {
        "filters": filters if rng.random() < 0.9 else filters[:1],
        "count": rng.randint(1, 4),
        "hosts": hosts,
        "request": {
            "numa_topology": guest_topology(rng, hosts[0]["numa_topology"], **of_guest)
            if rng.random() < 0.85
            else None,
            "pci_requests": requests,
            "network_metadata": _networks(rng) if rng.random() < 0.3 else None,
            "flavor": {"extra_specs": policy},
            "requested_groups": None if groups is None else list(groups),
        },
    }


def _hosts(rng, on_host):
    """A few hosts; some are alike but for the providers of their devices."""
    hosts = []
    for number in range(rng.choice((1, 2, 2, 3))):
        if hosts and rng.random() < 0.3:
            topology, pools = hosts[0]["numa_topology"], _renamed(hosts[0]["pci_stats"], number)
        else:
            topology = host_topology(rng, **on_host) if rng.random() < 0.95 else None
            nodes = _nodes(topology) if topology else [0]
            pools = pool_list(rng, nodes, number) if rng.random() < 0.95 else None
        ratios = {f"{name}_allocation_ratio": rng.choice(RATIOS) for name in ("cpu", "ram")}
        hosts.append({"numa_topology": topology, "pci_stats": pools, **ratios})
    return hosts


def _renamed(pools, host):
    """The same pools with providers of this host."""
    text = json.dumps(pools)
    for number in range(MOST_POOLS):
        text = text.replace(provider(f"0-{number}"), provider(f"{host}-{number}"))
    return json.loads(text)
