"""Deciding a request without a claim."""

from typing import Any

import msgspec
from oslo_utils import uuidutils

from scheduler import objects
from scheduler.decisions.document import encode
from scheduler.operators.plan.moves import Document
from scheduler.operators.snapshot.hints import hint_notes
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.request.reading import read


def dry_run(cloud: PlannedCloud, spec: Any) -> Document:
    """Return the hosts of ``spec.num_instances`` instances, and the document of the decision."""
    count = spec.num_instances
    more = (uuidutils.generate_uuid() for _ in range(count - 1))
    uuids = [spec.instance_uuid, *more]
    notes = list(
        hint_notes(
            spec,
            {
                *(each.name for each in cloud.rules.chain.filters),
                *(each.name for each in cloud.rules.weighers),
            },
        )
    )
    _join_group(cloud, spec, uuids)
    decision = cloud.decide(spec, uuids, explain=True, alternates=True)
    return {
        "plan": "dry-run",
        "flavor": read(spec.flavor, "name"),
        "instances": count,
        "placed": len(decision.selections),
        "fitting": len(decision.chosen),
        "notes": notes,
        "hosts": [
            {
                "number": number,
                "host": chosen.service_host,
                "cell": cloud.snapshot.cell_names().get(chosen.cell_uuid),
                "zone": chosen.availability_zone,
                "alternates": [each.service_host for each in alternates],
            }
            for number, (chosen, *alternates) in enumerate(decision.selections, 1)
        ],
        "decision": None if decision.document is None else msgspec.json.decode(encode(decision.document)),
    }


def _join_group(cloud: PlannedCloud, spec: Any, uuids: list[str]) -> None:
    """Put new instances into the server group of a request, whose hosts are those of its members."""
    group = read(spec, "instance_group")
    if group is None:
        return
    uuid = read(group, "uuid", "")
    members = [*read(group, "members", ()), *uuids]
    hosts, _ = cloud.places.hosts_of_instances(members)
    spec.instance_group = objects.InstanceGroup(
        **{
            name: getattr(group, name)
            for name in ("id", "uuid", "name", "user_id", "project_id", "policy")
            if name in group
        },
        _rules=dict(read(group, "_rules", {})),
        members=members,
        hosts=sorted(hosts),
    )
    cloud.snapshot.groups[uuid] = spec.instance_group
