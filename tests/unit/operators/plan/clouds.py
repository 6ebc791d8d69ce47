"""Clouds for tests of plans: hosts of the builders, providers in memory, and instances with their requests."""

import io
import json
from types import SimpleNamespace
import uuid

import numpy as np

from scheduler import objects
from scheduler.operators import programs
from scheduler.operators.shown.shown import lines_of
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.request_specs import NotFound
from scheduler.operators.snapshot.snapshot import UNREAD, Instances, Snapshot
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.plain_query import CLASSES
from scheduler.workflow.candidate_hosts import CandidateHosts
from tests.builders import CELL, make_host, make_table, uuid_of
from tests.support.options import make_conf
from tests.support.placement import Placement, make_node

#: Without the random choice among equal hosts.
FILTERS = (
    "ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,"
    "ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,NUMATopologyFilter,NumInstancesFilter"
).split(",")


def node(name, ram=8192, vcpus=8, cell=CELL):
    """A host without instances."""
    host = make_host(name).ram(ram, ram).vcpus(vcpus, 0, ratio=1.0).disk(1024 * 100, 100)
    return host.supports(("x86_64", "kvm", "hvm")).cell(cell)


def flavor(name="m1", vcpus=1, ram=1024, disk=1, **extra_specs):
    specs = {key.replace("__", ":"): value for key, value in extra_specs.items()}
    amounts = {"vcpus": vcpus, "memory_mb": ram, "root_gb": disk, "ephemeral_gb": 0, "swap": 0}
    return objects.Flavor(name=name, flavorid=name, extra_specs=specs, **amounts)


def group(name, policy, members=()):
    return objects.InstanceGroup(
        id=1, uuid=uuid_of(f"group {name}"), name=name, user_id="u", project_id="p", policy=policy,
        _rules={}, members=[uuid_of(member) for member in members], hosts=None,
    )  # fmt: skip


class MadeCloud:
    """Hosts and the instances on them; ``planned`` makes what plans are made on.

    ``traits`` has further traits of hosts by name, ``inventories`` further fields of their inventories by class,
    ``unmapped`` the names of hosts without a host mapping.
    """

    def __init__(self, *hosts, **options):
        self.hosts = list(hosts)
        self.conf = make_conf(**{"enabled_filters": FILTERS, **options})
        self.requests = {}
        self.groups = {}
        self.flavors = {}
        self.traits, self.inventories, self.unmapped = {}, {}, set()
        self._placed = []

    def put(self, name, host, of=None, state="active", task="", in_group=None, **fields):
        """Put an instance on a host, as its compute and Placement count it."""
        wanted = of or flavor()
        spec = objects.RequestSpec(
            instance_uuid=uuid_of(name),
            num_instances=1,
            flavor=wanted,
            image=objects.ImageMeta(properties=objects.ImageMetaProps()),
            project_id="p",
            user_id="u",
            availability_zone=None,
            instance_group=None if in_group is None else objects.InstanceGroup(uuid=in_group.uuid),
            scheduler_hints={},
            numa_topology=None,
            pci_requests=objects.InstancePCIRequests(requests=[]),
        )
        for field, value in fields.items():
            setattr(spec, field, value)
        self.requests[uuid_of(name)] = json.dumps(spec.obj_to_primitive())
        self.flavors[wanted.name] = wanted
        if in_group is not None:
            self.groups[in_group.uuid] = in_group
        self._placed.append((name, host, wanted, state, task))
        return self

    def snapshot(self):
        used = {host.columns["host"]: [0, 0, 0, 0] for host in self.hosts}
        for _, host, wanted, *_ in self._placed:
            for at, amount in enumerate((wanted.vcpus, wanted.memory_mb, wanted.root_gb, 1)):
                used[host][at] += amount
        for host in self.hosts:
            vcpus, ram, disk, count = used[host.columns["host"]]
            total = host.columns["total_usable_ram_mb"]
            host.set(vcpus_used=vcpus, free_ram_mb=total - ram, num_instances=count)
            host.set(free_disk_mb=(host.columns["total_usable_disk_gb"] - disk) * 1024)
        table = make_table(self.hosts)
        placement = Placement(*self._providers(used))
        ticks = iter(range(10**9))
        mirror = CandidateMirror(
            placement,
            lambda: 0.0,
            lambda: next(ticks) * 1e-9,
            totals=lambda uuids: table.totals(uuids, CLASSES),
        )
        mirror.read()
        names = {row.cell_uuid: row.cell_uuid[-4:] for row in table.rows}
        hosts = SimpleNamespace(
            aggregates=lambda: table.aggregates,
            minimum_compute_version=lambda: 74,
            partition=SimpleNamespace(name="", aggregates=lambda: None),
            mapped=lambda host: host not in self.unmapped,
            cell_names=lambda: names,
            instances=SimpleNamespace(image_properties=lambda places: {}, on_host=lambda *_: {}),
            find_nodes=lambda wanted: [
                SimpleNamespace(uuid=row.uuid, host=row.host, node=row.nodename)
                for row in table.nodes(wanted.host, wanted.node, wanted.cell_uuid)
            ],
        )
        stored = SimpleNamespace(
            texts=lambda uuids: ((one, self.requests[one]) for one in uuids if one in self.requests),
            groups=lambda uuids: {one: self.groups[one] for one in uuids if one in self.groups},
            flavor=self._flavor,
            flavors=list(self.flavors.values()),
        )
        return Snapshot(
            conf=self.conf,
            table=table,
            mirror=mirror,
            candidates=None,
            placement=placement,
            candidate_hosts=CandidateHosts(self.conf, hosts, None, None, None),
            hosts=hosts,
            stored=stored,
            instances=self._instances(table),
        )

    def _flavor(self, name):
        if name not in self.flavors:
            raise NotFound(f"There is no flavor {name}")
        return self.flavors[name]

    def planned(self):
        return PlannedCloud(self.snapshot())

    def _providers(self, used):
        return [self._provider(host, used) for host in self.hosts]

    def _provider(self, host, used):
        columns = host.columns
        vcpus, ram, disk, _ = used[columns["host"]]
        inventories = {
            "VCPU": {"total": columns["vcpus_total"], "max_unit": columns["vcpus_total"]},
            "MEMORY_MB": {"total": columns["total_usable_ram_mb"]},
            "DISK_GB": {"total": columns["total_usable_disk_gb"]},
        }
        for name, fields in self.inventories.get(columns["host"], {}).items():
            inventories[name] |= fields
        spent = {"VCPU": vcpus, "MEMORY_MB": ram, "DISK_GB": disk}
        traits = {"COMPUTE_NODE", "OWNER_NOVA", *self.traits.get(columns["host"], ())}
        return make_node(columns["uuid"], inventories=inventories, traits=traits, used=spent)

    def _instances(self, table):
        found = Instances()
        row_of = {row.host: number for number, row in enumerate(table.rows)}
        found.uuids = [uuid_of(name) for name, *_ in self._placed]
        found.states = [state for *_, state, _ in self._placed]
        found.tasks = [task for *_, task in self._placed]
        found.names = [name for name, *_ in self._placed]
        found.projects = ["project"] * len(self._placed)
        found.rows = np.array([row_of[host] for _, host, *_ in self._placed], np.int32)
        found.visible = np.ones(len(self._placed), bool)
        found.specs = np.full(len(self._placed), UNREAD, np.int32)
        found.index_of = {name: index for index, name in enumerate(found.uuids)}
        return found


def lines(plan):
    """The lines above the tables of a plan."""
    return list(lines_of(plan.words()[0]))


def berth_plan(directory):
    """Return what runs berth-plan, and returns its exit status, its output and what standard error has."""
    config = directory / "nova.conf"
    config.write_text("[api_database]\nconnection = sqlite:///x\n[database]\nconnection = sqlite:///y\n")

    def run(*argv):
        out, err = io.StringIO(), io.StringIO()
        status = programs.plan(["--config-file", str(config), *argv], stdout=out, stderr=err)
        return status, out.getvalue(), err.getvalue()

    return run


def new_uuid():
    return str(uuid.uuid4())
