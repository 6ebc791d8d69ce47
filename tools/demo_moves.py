"""Resize an instance whose first host fails, and show what Placement has meanwhile and afterwards."""

import dataclasses
import uuid

from conductor_client import journal
from conductor_client.claims import Allocations, placement_adapter
from scheduler.rpc.context import RequestContext
from tools import demo_report

TIMEOUT = 60


@dataclasses.dataclass
class Resized:
    """The result of a resize.

    Attributes:
        holds: By instance the provider and the amounts that it should hold, if they have changed.
        problems: What Placement had otherwise while the resize waited to be confirmed.
    """

    holds: dict = dataclasses.field(default_factory=dict)
    problems: list = dataclasses.field(default_factory=list)


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


def resize(cloud, chosen):
    """Resize what ``choose`` returned, confirm it, and print each step."""
    before, after, built = chosen
    instance, migration = built.instance_uuid, str(uuid.uuid4())
    demo_report.say("Resizing an instance")
    print(f"  {instance} from {before.flavor[1]} on {built.host} to {after.flavor[1]}; its first host fails")
    spec = after.spec()
    context = RequestContext(user_id=spec.user_id, project_id=spec.project_id)
    cloud.client.prepare(timeout=TIMEOUT).call(
        context,
        "resize_instance",
        instance_uuid=instance,
        migration_uuid=migration,
        request_spec=spec,
        host=built.host,
    )
    if not cloud.conductor.journal.wait([migration], TIMEOUT):
        return Resized(problems=[f"The resize of instance {instance} did not end in time"])
    (record,) = cloud.conductor.journal.records([migration])
    print(f"  hosts    {demo_report.story(record)}")
    if record.state == journal.ERROR:
        print("  The instance stays where it was.")
        return Resized()
    return _confirm(cloud, context, built, before, record, after)


def _confirm(cloud, context, built, before, record, after):
    """Compare what both consumers hold, then confirm the resize."""
    host_of = {host.name: host for host in cloud.fleet.hosts}
    source, target = host_of[built.host], host_of[record.host]
    allocations = Allocations(placement_adapter(cloud.conf))
    rows, problems = [], []
    for what, consumer, host, amounts in (
        ("migration", record.instance_uuid, source, before.amounts),
        ("instance", built.instance_uuid, target, after.amounts),
    ):
        held = allocations.held(consumer)["allocations"]
        found = {provider: value["resources"] for provider, value in held.items()}
        right = found == {host.uuid: amounts}
        mark = demo_report.GOOD if right else demo_report.BAD
        rows.append(
            (what, consumer, ", ".join(f"{name}:{n}" for name, n in amounts.items()), host.name, mark)
        )
        if not right:
            problems.append(f"Before the resize was confirmed {what} {consumer} held {found}")
    demo_report.table(("CONSUMER", "UUID", "SHOULD HOLD", "ON", ""), rows)
    compute = cloud.computes(source.cell)
    compute.prepare(timeout=TIMEOUT).call(context, "confirm_resize", migration_uuid=record.instance_uuid)
    print("  The resize is confirmed: the migration should hold nothing any more.")
    return Resized({built.instance_uuid: (target.uuid, after.amounts)}, problems)
