"""Run by nova's own Python: nova's conductor code asks a scheduler for destinations, as it does for each operation.

nova_conductor.py NOVA_CONF NOVA_CONF prints what nova's conductor sent to computes and wrote, as JSON on the last line.
Real are the conductor's manager, its tasks, its databases, Placement and the calls to the scheduler. Calls to computes are
recorded instead of sent, and there are no ports, images or volumes.
"""

import inspect
import json
import logging
import sys
import uuid

USER, PROJECT = "a6bfbc0a4b1d4f3f8a4a5d2f1f0c7e11", "5f6d2f0f3c2b4d0c9f3e7f2e5c9a1b22"
IMAGE, OTHER_IMAGE = "155d900f-4e14-4e4c-a73d-069cbf4541e6", "28a3c0a4-5d5b-4c0a-9f58-9ff4ad2df4a0"
ZONE = "made-by-nova"


def prepare(*config_files):
    """Nova as its conductor has it."""
    from nova import config, objects, rpc
    import nova.conf

    arguments = [word for path in config_files for word in ("--config-file", path)]
    config.parse_args(["nova-conductor", *arguments])
    logging.disable(logging.WARNING)
    if rpc.TRANSPORT is None:
        rpc.init(nova.conf.CONF)
    objects.register_all()


class Computes:
    """In the place of nova's RPC API of computes: keeps what would be sent."""

    def __init__(self):
        from nova.compute.rpcapi import ComputeAPI

        self.sent = []
        self._api = ComputeAPI

    def __getattr__(self, name):
        signature = inspect.signature(getattr(self._api, name))

        def send(*args, **kwargs):
            self.sent.append((name, signature.bind(None, *args, **kwargs).arguments))

        return send

    def last(self, name):
        """The arguments of what was sent last, which has to be this."""
        assert self.sent[-1][0] == name, self.sent[-1][0]
        return self.sent[-1][1]


class Scheduler:
    """Nova's client of the scheduler, which keeps the last answer."""

    def __init__(self, client):
        self._client = client
        self.answer = None

    def select_destinations(self, *args, **kwargs):
        answer = self._client.select_destinations(*args, **kwargs)
        self.answer = [list(selections) for selections in answer]  # the conductor empties its own
        return answer


class Images:
    def get(self, _context, image, **_kwargs):
        return {"id": image, "name": "debian", "status": "active", "properties": {}}


def without_ports():
    """There is no Neutron: instances have no ports."""
    from nova import objects
    from nova.network.neutron import API

    API.get_requested_resource_for_instance = lambda *_args: ([], objects.RequestLevelParams())
    API.has_port_binding_extension = lambda *_args: False


class Cloud:
    """What nova-api and nova-compute do before and after the conductor."""

    def __init__(self):
        from nova import context, objects
        from nova.conductor.manager import ComputeTaskManager

        self.objects = objects
        self._contexts = context
        self.context = context.RequestContext(USER, PROJECT, is_admin=True, roles=["member"])
        without_ports()
        self.conductor = ComputeTaskManager()
        self.computes = self.conductor.compute_rpcapi = Computes()
        self.scheduler = self.conductor.query_client = Scheduler(self.conductor.query_client)
        self.conductor.image_api = Images()
        self.small, self.large = self.flavor("small", 1, 1024), self.flavor("large", 2, 2048)

    def flavor(self, name, vcpus, memory_mb):
        flavorid = str(uuid.uuid4())
        flavor = self.objects.Flavor(
            self.context,
            name=f"{name}-{flavorid}",
            flavorid=flavorid,
            vcpus=vcpus,
            memory_mb=memory_mb,
            root_gb=1,
            ephemeral_gb=0,
            swap=0,
            rxtx_factor=1.0,
            vcpu_weight=0,
            disabled=False,
            is_public=True,
            extra_specs={},
        )
        flavor.create()
        return flavor

    def group(self, policy):
        group = self.objects.InstanceGroup(
            self.context, uuid=str(uuid.uuid4()), name=policy, user_id=USER, project_id=PROJECT, policy=policy
        )
        group.create()
        return group

    def build(self, count=1, flavor=None, group=None, zone=None, host=None):
        """Ask for instances as nova-api does; their UUIDs."""
        made = [self._wanted(flavor or self.small, group, zone, host, count) for _ in range(count)]
        requests, specs = zip(*made, strict=True)
        self.conductor.schedule_and_build_instances(
            self.context,
            build_requests=list(requests),
            request_specs=list(specs),
            image={},
            admin_password=None,
            injected_files=[],
            requested_networks=self.objects.NetworkRequestList(objects=[]),
            block_device_mapping=self.objects.BlockDeviceMappingList(objects=[]),
            tags=[],
        )
        return [spec.instance_uuid for spec in specs]

    def _wanted(self, flavor, group, zone, host, count):
        objects, context = self.objects, self.context
        instance = self._instance(flavor, zone)
        if group:
            objects.InstanceGroup.add_members(context, group.uuid, [instance.uuid])
        hints = {"group": [group.uuid]} if group else {}
        spec = objects.RequestSpec.from_components(
            context,
            instance.uuid,
            {"id": IMAGE, "name": "debian", "status": "active", "properties": {}},
            flavor,
            None,
            instance.pci_requests,
            {"scheduler_hints": hints, **({"force_hosts": [host]} if host else {})},
            objects.InstanceGroup.get_by_uuid(context, group.uuid) if group else None,
            zone,
            security_groups=objects.SecurityGroupList(objects=[]),
            port_resource_requests=[],
            request_level_params=objects.RequestLevelParams(),
        )
        spec.is_bfv, spec.num_instances = False, count
        spec.create()
        request = objects.BuildRequest(
            context,
            instance=instance,
            instance_uuid=instance.uuid,
            project_id=PROJECT,
            block_device_mappings=objects.BlockDeviceMappingList(objects=[]),
            tags=objects.TagList(objects=[]),
        )
        request.create()
        objects.InstanceMapping(
            context, instance_uuid=instance.uuid, project_id=PROJECT, user_id=USER, cell_mapping=None
        ).create()
        return request, spec

    def _instance(self, flavor, zone):
        objects = self.objects
        instance = objects.Instance(
            context=self.context,
            uuid=str(uuid.uuid4()),
            user_id=USER,
            project_id=PROJECT,
            display_name="server",
            image_ref=IMAGE,
            vm_state="building",
            task_state="scheduling",
            power_state=0,
            vcpus=flavor.vcpus,
            memory_mb=flavor.memory_mb,
            root_gb=flavor.root_gb,
            ephemeral_gb=0,
            flavor=flavor,
            old_flavor=None,
            new_flavor=None,
            instance_type_id=flavor.id,
            availability_zone=zone,
            system_metadata={"image_name": "debian"},
            metadata={},
            numa_topology=None,
            security_groups=objects.SecurityGroupList(objects=[]),
            tags=objects.TagList(objects=[]),
            keypairs=objects.KeyPairList(objects=[]),
            trusted_certs=None,
            resources=None,
            launch_index=0,
            hidden=False,
            locked=False,
        )
        instance.pci_requests = objects.InstancePCIRequests(instance_uuid=instance.uuid, requests=[])
        return instance

    def in_cell(self, instance_uuid):
        """A context manager: a context of the cell of an instance."""
        mapping = self.objects.InstanceMapping.get_by_instance_uuid(self.context, instance_uuid)
        return self._contexts.target_cell(self.context, mapping.cell_mapping)

    def read(self, context, instance_uuid):
        attributes = ["flavor", "system_metadata", "metadata", "pci_requests", "numa_topology", "info_cache"]
        return self.objects.Instance.get_by_uuid(context, instance_uuid, expected_attrs=attributes)

    def started(self, instance_uuid, host, node):
        """What a compute writes when it has built an instance."""
        with self.in_cell(instance_uuid) as context:
            instance = self.read(context, instance_uuid)
            instance.host, instance.node = host, node
            instance.compute_id = self.objects.ComputeNode.get_by_host_and_nodename(context, host, node).id
            instance.vm_state, instance.task_state, instance.power_state = "active", None, 1
            instance.save()

    def running(self):
        """A new instance that runs: its UUID and its host."""
        (instance,) = self.build()
        sent = self.computes.last("build_and_run_instance")
        self.started(instance, sent["host"], sent["node"])
        return instance, sent["host"]

    def zone_of(self, host):
        """The zone of a host as the scheduler names it."""
        self.build(host=host)
        return self.scheduler.answer[0][0].availability_zone

    def spec(self, instance_uuid):
        return self.objects.RequestSpec.get_by_instance_uuid(self.context, instance_uuid)


def casts(cloud):
    """What nova-compute and nova-api cast."""
    from nova.scheduler.client.query import SchedulerQueryClient

    client, context, objects = SchedulerQueryClient(), cloud.context, cloud.objects
    instance = objects.Instance(
        context, uuid=str(uuid.uuid4()), host="cmp-00000", system_metadata={}, metadata={}
    )
    client.update_instance_info(context, "cmp-00000", objects.InstanceList(objects=[instance]))
    client.sync_instance_info(context, "cmp-00000", [instance.uuid])
    client.delete_instance_info(context, "cmp-00000", instance.uuid)
    aggregate = objects.Aggregate(context, id=90, uuid=str(uuid.uuid4()), name="new", hosts=[], metadata={})
    client.update_aggregates(context, [aggregate])
    client.delete_aggregate(context, aggregate)


def described(cloud, selection):
    """A selection as nova reads it."""
    assert isinstance(selection, cloud.objects.Selection)
    assert isinstance(selection.limits, cloud.objects.SchedulerLimits)
    names = ("service_host", "nodename", "compute_node_uuid", "allocation_request_version")
    cell = cloud.objects.CellMapping.get_by_uuid(cloud.context, selection.cell_uuid)
    return {
        **{name: getattr(selection, name) for name in names},
        "cell": cell.name,
        "claim": json.loads(selection.allocation_request)["allocations"],
        "version": selection.VERSION,
    }


def boot(cloud):
    instances = cloud.build(2)
    answers = [[described(cloud, each) for each in selections] for selections in cloud.scheduler.answer]
    sent = [arguments for name, arguments in cloud.computes.sent[-2:] if name == "build_and_run_instance"]
    found = []
    for instance, arguments, answer in zip(instances, sent, answers, strict=True):
        with cloud.in_cell(instance) as context:
            assert cloud.read(context, instance).vm_state == "building"
        found.append(
            {
                "instance": instance,
                "answer": answer,
                "host": arguments["host"],
                "node": arguments["node"],
                "alternates": [one.service_host for one in arguments["host_list"]],
            }
        )
    return found


def boot_that_fits_nowhere(cloud):
    (instance,) = cloud.build(flavor=cloud.flavor("huge", 4096, 1024))
    mapping = cloud.objects.InstanceMapping.get_by_instance_uuid(cloud.context, instance)
    with cloud.in_cell(instance) as context:
        buried = cloud.read(context, instance)
        fault = cloud.objects.InstanceFault.get_latest_for_instance(context, instance)
    return {
        "instance": instance,
        "cell": mapping.cell_mapping.name,
        "state": buried.vm_state,
        "fault": [fault.code, fault.message],
    }


def boot_of_a_group(cloud):
    """Three instances that are to be apart, and a fourth one later."""
    group = cloud.group("anti-affinity")
    hosts = []
    for count in (3, 1):
        instances = cloud.build(count, group=group)
        sent = [arguments for _, arguments in cloud.computes.sent[-count:]]
        for instance, arguments in zip(instances, sent, strict=True):
            cloud.started(instance, arguments["host"], arguments["node"])
            hosts.append(arguments["host"])
    return {"hosts": hosts}


def resize(cloud):
    instance, source = cloud.running()
    with cloud.in_cell(instance) as context:
        cloud.conductor.migrate_server(
            context,
            cloud.read(context, instance),
            {"filter_properties": {}},
            live=False,
            rebuild=False,
            flavor=cloud.large,
            block_migration=None,
            disk_over_commit=None,
            request_spec=cloud.spec(instance),
        )
    sent = cloud.computes.last("prep_resize")
    return {
        "instance": instance,
        "source": source,
        "host": sent["host"],
        "migration": sent["migration"].uuid,
        "alternates": len(sent["host_list"]),
    }


def live_migrate(cloud):
    instance, source = cloud.running()
    with cloud.in_cell(instance) as context:
        cloud.conductor.live_migrate_instance(
            context, cloud.read(context, instance), {}, False, False, cloud.spec(instance)
        )
    sent = cloud.computes.last("live_migration")
    return {
        "instance": instance,
        "source": source,
        "host": sent["dest"],
        "migration": sent["migration"].uuid,
    }


def _rebuild(cloud, instance, spec, image, *, evacuate):
    with cloud.in_cell(instance) as context:
        cloud.conductor.rebuild_instance(
            context,
            cloud.read(context, instance),
            orig_image_ref=IMAGE,
            image_ref=image,
            injected_files=[],
            new_pass=None,
            orig_sys_metadata={},
            bdms=cloud.objects.BlockDeviceMappingList(objects=[]),
            recreate=evacuate,
            on_shared_storage=False,
            request_spec=spec,
        )
    return cloud.computes.last("rebuild_instance")["host"]


def evacuate(cloud):
    instance, source = cloud.running()
    host = _rebuild(cloud, instance, cloud.spec(instance), IMAGE, evacuate=True)
    return {"instance": instance, "source": source, "host": host}


def rebuild(cloud):
    """With a new image, for which nova-api asks for the same host once more."""
    instance, source = cloud.running()
    spec = cloud.spec(instance)
    with cloud.in_cell(instance) as context:
        node = cloud.read(context, instance).node
    spec.image = cloud.objects.ImageMeta.from_dict(cloud.conductor.image_api.get(None, OTHER_IMAGE))
    spec.scheduler_hints["_nova_check_type"] = ["rebuild"]
    spec.force_hosts, spec.force_nodes = [source], [node]
    return {
        "instance": instance,
        "source": source,
        "host": _rebuild(cloud, instance, spec, OTHER_IMAGE, evacuate=False),
    }


def unshelve(cloud):
    instance, _source = cloud.running()
    cloud.conductor.report_client.delete_allocation_for_instance(cloud.context, instance, force=True)
    with cloud.in_cell(instance) as context:
        shelved = cloud.read(context, instance)
        shelved.host = shelved.node = shelved.compute_id = None
        shelved.vm_state, shelved.task_state = "shelved_offloaded", "unshelving"
        shelved.save()
        cloud.conductor.unshelve_instance(context, shelved, cloud.spec(instance))
    return {"instance": instance, "host": cloud.computes.last("unshelve_instance")["host"]}


def aggregates(cloud):
    """A zone that nova-api makes, uses and deletes."""
    from nova.compute.api import AggregateAPI

    api, context = AggregateAPI(), cloud.context
    api.compute_rpcapi = Computes()
    host = max(mapping.host for mapping in cloud.objects.HostMappingList.get_all(context))
    zone = api.create_aggregate(context, ZONE, ZONE)
    api.add_host_to_aggregate(context, zone.id, host)
    cloud.build(zone=ZONE)
    chosen, zones = cloud.computes.last("build_and_run_instance")["host"], [cloud.zone_of(host)]
    api.remove_host_from_aggregate(context, zone.id, host)
    api.delete_aggregate(context, zone.id)
    return {"host": host, "chosen": chosen, "zones": [*zones, cloud.zone_of(host)]}


OPERATIONS = (
    casts,
    aggregates,
    boot,
    boot_that_fits_nowhere,
    boot_of_a_group,
    resize,
    live_migrate,
    evacuate,
    rebuild,
    unshelve,
)


def main():
    prepare(*sys.argv[1:])
    cloud = Cloud()
    sys.stdout.write(json.dumps({each.__name__: each(cloud) for each in OPERATIONS}) + "\n")


if __name__ == "__main__":
    main()
