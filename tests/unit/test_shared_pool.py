"""Multi-creates on hosts that share a pool: the explanation counts what the instances before took of it."""

from urllib.parse import parse_qs

import orjson
import pytest

from scheduler.decisions import explanation
from scheduler.decisions.document import decode
from scheduler.decisions.words import failing_text
from scheduler.errors import NoValidHost
from scheduler.placement.answer import parse
from scheduler.placement.reply import Reply
from tests.builders import make_host, uuid_of
from tests.unit import test_manager
from tests.unit.numa.shapes import host as topology
from tests.unit.numa.shapes import host_cell
from tests.unit.selection.requests import make_spec
from tests.unit.test_manager import ask
from tests.unit.test_pending_devices import gpu_spec, pools

# fixtures
conf, make_world = test_manager.conf, test_manager.make_world

POOL = uuid_of("pool")
NEEDED = {"VCPU": 2, "MEMORY_MB": 512}


def pool_answer(pool_gb, *names):
    """What Placement offers of hosts that share a pool with so many GB; an instance takes 4."""
    requests = [
        {
            "allocations": {
                uuid_of(name): {"resources": NEEDED},
                POOL: {"resources": {"DISK_GB": 4}},
            },
            "mappings": {"": [uuid_of(name), POOL]},
        }
        for name in names
    ]
    summaries = {
        uuid_of(name): {
            "root_provider_uuid": uuid_of(name),
            "resources": {each: {"capacity": 65536, "used": 0} for each in NEEDED},
            "traits": [],
        }
        for name in names
    }
    summaries[POOL] = {
        "root_provider_uuid": POOL,
        "resources": {"DISK_GB": {"capacity": pool_gb, "used": 0}},
        "traits": ["MISC_SHARES_VIA_AGGREGATE"],
    }
    return orjson.dumps({"allocation_requests": requests, "provider_summaries": summaries})


@pytest.fixture
def make_pool(make_world, conf):
    """A world of hosts on a pool; Placement offers ``offered``, and all of them without ``needed``."""

    def make(pool_gb, *hosts, offered, filters, needed="DISK_GB"):
        conf.set_override("enabled_filters", filters, "filter_scheduler")
        conf.set_override("max_instances_per_host", 2, "filter_scheduler")
        world = make_world(list(hosts))

        def get(path, *_args, **_more):
            asked = parse_qs(path.partition("?")[2])
            text = ",".join(asked.get("resources", []) + asked.get("required", []))
            names = offered if needed in text else [host.columns["host"] for host in hosts]
            return Reply(200, pool_answer(pool_gb if "DISK_GB" in text else 2**20, *names))

        world.placement.get = get
        world.placement.fetch = lambda queries, context: parse(pool_answer(pool_gb, *offered), None)
        return world

    return make


def refused(world, spec, instances):
    """What is said of a refused request."""
    uuids = [f"i{number}" for number in range(instances)]
    spec.num_instances = instances
    with pytest.raises(NoValidHost):
        ask(world, spec, uuids)
    decisions = world.manager.decisions
    decisions.start()
    decisions.complete_now(timeout=60)
    decisions.stop(0.0)
    (decision,) = map(decode, decisions.memory.latest_first())
    return [failing_text(decision.why, each) for each in decision.why.failing]


def equipped(name, devices):
    return make_host(name).ram(65536).disk(2**20).vcpus(64).pci(pools(devices)).numa(topology(host_cell(0)))


def test_a_device_that_narrows_candidates_does_not_hide_what_an_instance_took(make_pool):
    filters = ["NUMATopologyFilter", "PciPassthroughFilter"]
    world = make_pool(8, equipped("h1", 1), equipped("h2", 2), offered=["h1", "h2"], filters=filters)
    assert refused(world, gpu_spec(), 3) == [
        "1 host lacks only 4 DISK_GB: used by the instances before",
        "1 host is rejected by PciPassthroughFilter and lacks 4 DISK_GB",
    ]


def test_a_host_that_a_filter_rejects_lacks_what_instances_took_as_well(make_pool):
    world = make_pool(8, equipped("h1", 0), offered=["h1"], filters=["NumInstancesFilter"])
    assert refused(world, make_spec(project_id="p"), 3) == [
        "1 host is rejected by NumInstancesFilter and lacks 4 DISK_GB"
    ]


def test_a_host_that_is_not_offered_lacks_what_instances_took_as_well(make_pool):
    hosts = equipped("h1", 0), equipped("h2", 0)
    spec = make_spec(project_id="p")
    spec.flavor.extra_specs = {"trait:HW_GPU": "required"}
    world = make_pool(8, *hosts, offered=["h1"], filters=["ComputeFilter"], needed="HW_GPU")
    assert refused(world, spec, 3) == [
        "1 host fails more than one constraint of the query",
        "1 host lacks only 4 DISK_GB: used by the instances before",
    ]


def test_hosts_that_are_not_compared_with_what_instances_took_are_not_called_suitable(make_pool, monkeypatch):
    monkeypatch.setattr(explanation, "MOST_HOSTS", 1)
    hosts = [equipped(f"h{number}", 0) for number in range(4)]
    offered = [f"h{number}" for number in range(4)]
    world = make_pool(8, *hosts, offered=offered, filters=["ComputeFilter"])
    assert refused(world, make_spec(project_id="p"), 3) == [
        "3 hosts fail something that is not known",
        "1 host lacks only 4 DISK_GB: used by the instances before",
    ]


def test_only_hosts_on_the_pool_lack_what_instances_took(make_pool):
    hosts = equipped("h1", 0), equipped("h2", 0)
    world = make_pool(8, *hosts, offered=["h1"], filters=["ComputeFilter"])
    assert refused(world, make_spec(project_id="p"), 3) == [
        "2 hosts lack only 4 DISK_GB: used by the instances before on 1 host"
    ]
