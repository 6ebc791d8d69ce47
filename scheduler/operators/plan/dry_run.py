"""berth-plan dry-run: deciding a request without a claim."""

import argparse
from dataclasses import replace
from typing import Any, cast

import msgspec
from oslo_utils import uuidutils

from scheduler.decisions import document
from scheduler.logs import count_text
from scheduler.operators.app import count
from scheduler.operators.explain import decision
from scheduler.operators.plan.command import Plan, RequestPlan
from scheduler.operators.shown.shown import Columns, Fact, Head, Table, table
from scheduler.operators.snapshot import requests
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.request.reading import read

#: Hosts that are shown.
BEST = 10


class DryRunCommand(RequestPlan):
    """Decide a request without claiming anything: the hosts that it would get now, or why none.

    Exit status: 0 every instance finds a place, 3 some do not, 255 it could not be found out.
    """

    arguments = (count("--count", 1, "number of instances"),)

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> "DryRunPlan":
        return dry_run(cloud, requests.make_request(args, cloud.snapshot.stored, self.conf))


class Given(msgspec.Struct):
    """The host that an instance would get."""

    number: int
    host: str
    cell: str | None
    zone: str | None
    alternates: list[str]


class DryRunPlan(Plan, kw_only=True, tag="dry-run"):
    """What would be decided.

    Attributes:
        placed: How many instances get a host: all of them or none.
        fitting: How many of the first ones would find a host.
        decision: The document of the decision.
    """

    flavor: str | None
    instances: int
    placed: int
    fitting: int
    notes: list[str]
    hosts: list[Given]
    decision: document.Decision

    def words(self) -> tuple[Head, list[Table]]:
        subject = (
            f"A host for {self.placed} of {count_text(self.instances, 'instance')} of flavor {self.flavor}"
        )
        if self.placed < self.instances and self.fitting:
            subject += f"; the first {self.fitting} would find one"
        head = decision.head(self.decision, "plan")
        notes = [Fact("note:", note) for note in self.notes]
        head = replace(head, title=f"Dry run: {head.title}", subject=subject, facts=[*notes, *head.facts])
        columns: Columns = {
            "Instance": "number", "Host": "host", "Cell": "cell", "Zone": "zone",
            "Alternates": lambda one: ", ".join(one.alternates),
        }  # fmt: skip
        reasons = decision.parts(self.decision, BEST)
        return head, [*reasons, table(self.hosts, columns, "Chosen hosts")] if self.hosts else reasons


def dry_run(cloud: PlannedCloud, spec: Any) -> DryRunPlan:
    """Return the hosts of ``spec.num_instances`` instances, and the document of the decision."""
    count = spec.num_instances
    more = (uuidutils.generate_uuid() for _ in range(count - 1))
    uuids = [spec.instance_uuid, *more]
    rules = {one.name for one in cloud.rules.chain.filters} | {one.name for one in cloud.rules.weighers}
    notes = list(requests.hint_notes(spec, rules))
    _join_group(cloud, spec, uuids)
    decided = cloud.decide(spec, uuids, explain=True, alternates=True)
    return DryRunPlan(
        flavor=read(spec.flavor, "name"),
        instances=count,
        placed=len(decided.selections),
        fitting=len(decided.chosen),
        notes=notes,
        hosts=[
            Given(
                number,
                chosen.service_host,
                cloud.snapshot.cell_names().get(chosen.cell_uuid),
                chosen.availability_zone,
                [each.service_host for each in alternates],
            )
            for number, (chosen, *alternates) in enumerate(decided.selections, 1)
        ],
        decision=cast(document.Decision, decided.document),  # as it is explained
        all_placed=len(decided.selections) == count,
    )


def _join_group(cloud: PlannedCloud, spec: Any, uuids: list[str]) -> None:
    """Put new instances into the server group of a request, whose hosts are those of its members."""
    if read(spec, "instance_group") is None:
        return
    group = spec.instance_group = spec.instance_group.obj_clone()
    group.members = [*read(group, "members", ()), *uuids]
    group.hosts = sorted(cloud.places.hosts_of_instances(group.members)[0])
    cloud.snapshot.groups[read(group, "uuid", "")] = group
