"""Random providers, usage and queries for comparisons with a real Placement."""

import uuid

import requests

from scheduler.request.query import Query
from tools.rig.providers import HEADERS, Provider

TRAITS = ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_CPU_X86_VMX", "COMPUTE_TRUSTED_CERTS"]


def make_cloud(rng, nodes, *, unit_limits=False):
    """Return flat nodes, some with children of other classes, in random aggregates and with random traits."""
    aggregates = [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(4)]
    providers = []
    for number in range(nodes):
        root = str(uuid.UUID(int=rng.getrandbits(128)))
        inventories = {
            "VCPU": {"total": rng.choice([4, 8]), "allocation_ratio": rng.choice([1.0, 2.5])},
            "MEMORY_MB": {"total": rng.choice([2048, 4096]), "reserved": rng.choice([0, 512])},
        }
        if rng.random() < 0.7:
            inventories["DISK_GB"] = {"total": rng.choice([10, 100])}
        if rng.random() < 0.3:
            inventories["PCPU"] = {"total": 4}
        if unit_limits:
            add_unit_limits(rng, inventories)
        chosen = {"traits": random_part(rng, TRAITS), "aggregates": random_part(rng, aggregates)}
        providers.append(Provider(f"node {number}", root, inventories, **chosen))
        if rng.random() < 0.3:
            child = str(uuid.UUID(int=rng.getrandbits(128)))
            more = {"traits": random_part(rng, TRAITS), "parent": root}
            providers.append(Provider(f"child {number}", child, {"VGPU": {"total": 2}}, **more))
    return aggregates, providers


def add_unit_limits(rng, inventories):
    """Add limits on single amounts; what ``fill_some`` takes is within them."""
    inventories["VCPU"]["max_unit"] = rng.choice([3, 4, 8])
    inventories["MEMORY_MB"] |= {"min_unit": rng.choice([1, 512]), "step_size": rng.choice([1, 512])}
    if "DISK_GB" in inventories:
        inventories["DISK_GB"] |= {"min_unit": rng.choice([1, 5]), "step_size": rng.choice([1, 5])}


def random_part(rng, items):
    return rng.sample(items, rng.randrange(len(items) + 1))


def make_query(rng, aggregates):
    amounts = {"MEMORY_MB": rng.choice([256, 1024, 2048]), "VCPU": rng.choice([1, 4, 9])}
    if rng.random() < 0.5:
        amounts["DISK_GB"] = rng.choice([1, 20])
    if rng.random() < 0.2:
        amounts["PCPU"] = rng.choice([1, 4])
    pairs = [("resources", ",".join(f"{name}:{amount}" for name, amount in sorted(amounts.items())))]
    for name in ("required", "root_required"):
        if rng.random() < 0.3:
            trait = rng.choice(TRAITS)
            pairs.append((name, f"!{trait}" if rng.random() < 0.5 else trait))
    if rng.random() < 0.4:
        pairs.append(("member_of", "in:" + ",".join(rng.sample(aggregates, 2))))
    if rng.random() < 0.2:
        pairs.append(("member_of", "!in:" + rng.choice(aggregates)))
    text = "&".join(f"{name}={value}" for name, value in pairs)
    return Query(tuple(pairs), text, None)


def fill_some(url, rng, providers):
    """Let instances hold some of what there is."""
    for provider in providers:
        if "MEMORY_MB" in provider.inventories and rng.random() < 0.5:
            body = {
                "allocations": {
                    provider.uuid: {"resources": {"VCPU": rng.choice([1, 3]), "MEMORY_MB": 1024}}
                },
                "project_id": "p",
                "user_id": "u",
                "consumer_generation": None,
                "consumer_type": "INSTANCE",
            }
            consumer = uuid.UUID(int=rng.getrandbits(128))
            headers = HEADERS | {"OpenStack-API-Version": "placement 1.38"}
            answer = requests.put(f"{url}/allocations/{consumer}", json=body, headers=headers, timeout=10)
            assert answer.status_code == 204, answer.text
