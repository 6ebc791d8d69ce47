"""Resize an instance whose first host fails, and show what Placement has meanwhile and afterwards."""

import dataclasses
import uuid

from conductor_client import journal
from conductor_client.claims import Allocations
from scheduler.rpc.context import RequestContext
from tools.rig.load import PROJECT, USER
from tools.scenarios import demo_report

TIMEOUT = 60


def choose(requests, records, flavors):
    """Return the request of an instance that can grow, the same with the next flavor, and the record."""
    request_of = {instance: request for request in requests for instance in request.uuids}
    active = [record for record in records if record.state == journal.ACTIVE]
    # a zone leaves fewer hosts to fall back to
    for record in sorted(active, key=lambda record: request_of[record.instance_uuid].zone is not None):
        request = request_of[record.instance_uuid]
        larger = flavors[flavors.index(request.flavor) + 1 :]
        if larger:
            before = dataclasses.replace(request, uuids=[record.instance_uuid])
            return before, dataclasses.replace(before, flavor=larger[0]), record
    return None


def resize(cloud, before, after, built):
    """Resize what ``choose`` returned, confirm it, and print each step.

    Returns:
        What consumers should hold in another way than before, as ``truth.Expected``, and what was wrong while
        the resize waited to be confirmed.
    """
    instance, migration = built.instance_uuid, str(uuid.uuid4())
    demo_report.say("Resizing an instance")
    print(
        f"  {instance} from {before.flavor.name} on {built.host} to {after.flavor.name}; its first host fails"
    )
    context = RequestContext(user_id=USER, project_id=PROJECT)
    arguments = {"instance_uuid": instance, "migration_uuid": migration, "host": built.host}
    client = cloud.client.prepare(timeout=TIMEOUT)
    client.call(context, "resize_instance", request_spec=after.spec(), **arguments)
    if not cloud.journal.wait([migration], TIMEOUT):
        return {}, [f"The resize of instance {instance} did not end in time"]
    (record,) = cloud.journal.records([migration])
    print(f"  hosts    {demo_report.story(record)}")
    if record.state == journal.ERROR:
        print("  The instance stays where it was.")
        return {}, []
    host_of = {host.name: host for host in cloud.fleet.hosts}
    source, target = host_of[built.host], host_of[record.host]
    problems = _compare(cloud, (migration, source, before.amounts), (instance, target, after.amounts))
    compute = cloud.computes(source.cell).prepare(timeout=TIMEOUT)
    compute.call(context, "confirm_resize", migration_uuid=migration)
    print("  The resize is confirmed: the migration should hold nothing any more.")
    return {instance: (target.uuid, after.amounts)}, problems


def _compare(cloud, *consumers):
    """Compare what the migration and the instance hold before the resize is confirmed."""
    allocations = Allocations.from_conf(cloud.conf)
    rows, problems = [], []
    for what, (consumer, host, amounts) in zip(("migration", "instance"), consumers, strict=True):
        held = allocations.held(consumer)
        found = {provider: value["resources"] for provider, value in held.items()}
        right = found == {host.uuid: amounts}
        mark = demo_report.GOOD if right else demo_report.BAD
        rows.append(
            (what, consumer, ", ".join(f"{name}:{n}" for name, n in amounts.items()), host.name, mark)
        )
        if not right:
            problems.append(f"Before the resize was confirmed {what} {consumer} held {found}")
    demo_report.table(("CONSUMER", "UUID", "SHOULD HOLD", "ON", ""), rows)
    return problems
