"""What stands in for the bus, Placement and the scheduler in the tests of this directory."""

import itertools
import json
from types import SimpleNamespace
import uuid

import oslo_messaging as messaging

from conductor_client.bus import Bus
from scheduler import conf as options
from scheduler import objects
from scheduler.rpc.context import RequestContext

CELL = "3b0d9c6e-5d0c-4f0a-9d5e-0c4b2b1e7a10"
_numbers = itertools.count(1)


def new_uuid():
    return str(uuid.uuid4())


def context():
    return RequestContext(user_id="u", project_id="p")


def make_conf(**overrides):
    """Options as of an empty nova.conf on the in-memory bus; overrides as ``group__name`` or ``name``."""
    conf = options.new()
    conf([], project="nova", default_config_files=[], default_config_dirs=[])
    conf.set_override("transport_url", "fake://")
    for name, value in overrides.items():
        group, _, option = name.rpartition("__")
        conf.set_override(option, value, group=group or None)
    return conf


def private_bus():
    """A bus that no other test hears."""
    return Bus(make_conf(), exchange=f"exchange-{next(_numbers)}")


def make_spec(**fields):
    flavor = objects.Flavor(
        id=1,
        name="m1",
        flavorid="1",
        vcpus=1,
        memory_mb=512,
        root_gb=1,
        ephemeral_gb=0,
        swap=0,
        extra_specs={},
    )
    return objects.RequestSpec(
        **{"project_id": "p", "user_id": "u", "flavor": flavor, "num_instances": 1, **fields}
    )


def make_selection(host):
    provider = str(uuid.uuid5(uuid.NAMESPACE_DNS, host))
    wanted = {"allocations": {provider: {"resources": {"VCPU": 1}}}, "mappings": {"": [provider]}}
    return objects.Selection(
        compute_node_uuid=provider,
        service_host=host,
        nodename=f"{host}.example.net",
        cell_uuid=CELL,
        limits=objects.SchedulerLimits(numa_topology=None, vcpu=None, disk_gb=None, memory_mb=None),
        allocation_request=json.dumps(wanted),
        allocation_request_version="1.36",
        availability_zone="nova",
    )


class Recorder:
    """An RPC client that remembers what was cast; ``error`` is raised instead, if given."""

    def __init__(self, error=None):
        self.casts = []
        self.error = error

    def cast(self, _context, method, **arguments):
        if self.error:
            raise self.error
        self.casts.append((method, arguments))


class Allocations:
    """``conductor_client.claims.Allocations`` in memory; claims on the hosts of ``full`` are refused."""

    def __init__(self, full=(), error=None):
        self.full = set(full)
        self.error = error
        self.held = {}

    def claim(self, instance_uuid, selection, _spec):
        if self.error:
            raise self.error
        if selection.service_host in self.full:
            return False
        self.held[instance_uuid] = selection.service_host
        return True

    def remove(self, instance_uuid):
        self.held.pop(instance_uuid, None)
        return True

    def move(self, source, target):
        if source not in self.held:
            return False
        self.held[target] = self.held.pop(source)
        return True


class Rows:
    """``cell_rows.ComputeRows`` that remembers what was written."""

    def __init__(self):
        self.seen = []

    def built(self, instance_uuid, host, node, spec):
        self.seen.append((instance_uuid, host, node, spec.vcpus))

    def failed(self, node):
        self.seen.append(node)


class Scheduler:
    """An endpoint that answers with what it is given: a value, or an error to be raised."""

    target = messaging.Target(version="4.5")

    def __init__(self, answer=None):
        self.answer = answer
        self.asked = []

    def select_destinations(self, context, **arguments):
        self.asked.append(SimpleNamespace(context=context, **arguments))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def sync_instance_info(self, _context, **arguments):
        self.asked.append(SimpleNamespace(**arguments))
