"""Run by nova's own Python: nova's client of the scheduler, with nova's own objects, asks a scheduler.

nova_caller.py NOVA_CONF prints what nova saw, as JSON on the last line.
"""

import json
import logging
import sys
import uuid

USER, PROJECT = "a6bfbc0a4b1d4f3f8a4a5d2f1f0c7e11", "5f6d2f0f3c2b4d0c9f3e7f2e5c9a1b22"


def prepare(config_file):
    """Nova as its conductor would have it; returns (nova.objects, context, client)."""
    from nova import config, context, objects, rpc
    import nova.conf

    config.parse_args(["nova-conductor", "--config-file", config_file])
    logging.disable(logging.WARNING)
    if rpc.TRANSPORT is None:
        rpc.init(nova.conf.CONF)
    objects.register_all()
    from nova.scheduler.client import query

    made = context.RequestContext(user_id=USER, project_id=PROJECT, is_admin=False, roles=["member"])
    return objects, made, query.SchedulerQueryClient()


def flavor(objects, vcpus):
    return objects.Flavor(
        id=1,
        name="m1",
        flavorid="1",
        vcpus=vcpus,
        memory_mb=512,
        root_gb=1,
        ephemeral_gb=0,
        swap=0,
        rxtx_factor=1.0,
        vcpu_weight=0,
        disabled=False,
        is_public=True,
        extra_specs={},
        description=None,
        created_at=None,
        updated_at=None,
        deleted_at=None,
        deleted=False,
    )


def request(objects, context, uuids, vcpus=1, zone=None):
    image = {
        "id": str(uuid.uuid4()),
        "name": "debian",
        "status": "active",
        "properties": {"hw_disk_bus": "virtio"},
    }
    spec = objects.RequestSpec.from_components(
        context,
        uuids[0],
        image,
        flavor(objects, vcpus),
        None,
        objects.InstancePCIRequests(instance_uuid=uuids[0], requests=[]),
        {"scheduler_hints": {}},
        None,
        zone,
        security_groups=objects.SecurityGroupList(objects=[]),
        request_level_params=objects.RequestLevelParams(),
    )
    spec.is_bfv = False
    spec.num_instances = len(uuids)
    return spec


def chosen(objects, context, client):
    uuids = [str(uuid.uuid4()) for _ in range(2)]
    spec = request(objects, context, uuids, zone="az1")
    lists = client.select_destinations(context, spec, uuids, return_objects=True, return_alternates=True)
    assert all(isinstance(one, objects.Selection) for hosts in lists for one in hosts)
    assert all(isinstance(one.limits, objects.SchedulerLimits) for hosts in lists for one in hosts)
    names = ("service_host", "nodename", "cell_uuid", "compute_node_uuid", "availability_zone")
    names += ("allocation_request", "allocation_request_version")
    return {
        "uuids": uuids,
        "lists": [[{name: getattr(one, name) for name in names} for one in hosts] for hosts in lists],
        "version": lists[0][0].VERSION,
    }


def refused(objects, context, client):
    from nova import exception

    uuids = [str(uuid.uuid4())]
    try:
        client.select_destinations(
            context, request(objects, context, uuids, vcpus=100000), uuids, return_objects=True
        )
    except exception.NoValidHost as error:
        return {"message": error.format_message(), "code": error.kwargs["code"]}
    return None


def cast_news(objects, context, client):
    """What nova-compute and nova-api cast."""
    instance = objects.Instance(
        context, uuid=str(uuid.uuid4()), host="cmp-00000", system_metadata={}, metadata={}
    )
    client.update_instance_info(context, "cmp-00000", objects.InstanceList(objects=[instance]))
    client.sync_instance_info(context, "cmp-00000", [instance.uuid])
    client.delete_instance_info(context, "cmp-00000", instance.uuid)
    aggregate = objects.Aggregate(context, id=90, uuid=str(uuid.uuid4()), name="new", hosts=[], metadata={})
    client.update_aggregates(context, [aggregate])
    client.delete_aggregate(context, aggregate)


def main():
    objects, context, client = prepare(sys.argv[1])
    cast_news(objects, context, client)
    result = {"chosen": chosen(objects, context, client), "refused": refused(objects, context, client)}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
