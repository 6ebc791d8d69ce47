"""A host as of now, read from nova's databases and Placement: a cloud of this host alone.

Schedulers are not asked. What they have placed and no compute has reported yet is in Placement only.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from oslo_config import cfg

from scheduler import conf as options
from scheduler import objects
from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.document import Decision, time_text
from scheduler.decisions.failure_cause import OF_AGGREGATES, remedy_of_constraint
from scheduler.decisions.words import failed_words
from scheduler.hosts.coordinates import TableRow
from scheduler.hosts.rows import HostRow
from scheduler.operators.plan.command import quiet
from scheduler.operators.snapshot import requests, snapshot
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.placement.providers import ABSENT, STATE, Inventory, ProviderState, read_provider

#: Classes from which every instance takes an amount, if the host has them.
TAKEN = ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB")

#: What keeps every request from a host, besides a compute service that is down.
OF_EVERY_REQUEST = frozenset(
    {
        ConstraintKind.DISABLED,
        ConstraintKind.AMOUNT,
        ConstraintKind.CELL,
        ConstraintKind.PROVIDER,
        ConstraintKind.MAPPING,
    }
)


class Problem(msgspec.Struct):
    """What keeps every request from a host, and the remedy."""

    text: str
    remedy: str


class Provider(msgspec.Struct):
    """The provider of a compute node: inventories and usages by class, traits, UUIDs of aggregates."""

    inventories: Mapping[str, Inventory]
    usages: Mapping[str, int]
    traits: list[str]
    aggregates: list[str]


class NodeStatus(msgspec.Struct, kw_only=True):
    """One compute node.

    Attributes:
        uuid: Its UUID, which is that of its resource provider.
        seen: When its service was last seen up, or None.
        updated: When the compute last wrote its row, or None.
        provider: Its resource provider in Placement, or None.
        problems: What keeps every request away.
    """

    host: str
    node: str
    uuid: str
    cell: str
    zone: str
    aggregates: list[str] = []
    seen: str | None = None
    updated: str | None
    provider: Provider | None = None
    problems: list[Problem]


class HostStatus(msgspec.Struct):
    """All nodes of a host at a time."""

    time: str
    nodes: list[NodeStatus]


@contextmanager
def read(conf: cfg.ConfigOpts, name: str) -> Iterator[PlannedCloud | None]:
    """Read a host by its service host, by the name or by the UUID of a node; None if there is none."""
    options.require_databases(conf)
    with quiet(wanted=True), snapshot.read(conf, host=name) as found:
        yield PlannedCloud(found) if len(found.table) or found.table.without_service else None


def decide(cloud: PlannedCloud, decision: Decision) -> Decision | None:
    """Return what is decided now on the first instance of a request; None if the request was not kept."""
    spec: Any = decision.request_spec()
    if spec is None:
        return None
    spec.num_instances = 1
    return cloud.decide(spec, decision.instances[:1], explain=True).document


def status(cloud: PlannedCloud) -> HostStatus:
    """Return what the databases and Placement have of a host, and what keeps every request from it."""
    found, table, nodes = cloud.snapshot, cloud.snapshot.table, []
    providers = {row.uuid: read_provider(found.placement, row.uuid, *STATE) for row in table.rows}
    failed = cloud.failed(requests.of(_smallest_flavor(providers), objects.ImageMeta(), cloud.conf))
    for position, row in enumerate(table.rows):
        problems = [
            Problem(failed_words(constraint, reasons), remedy_of_constraint(constraint, reasons))
            for constraint, reasons in failed.of(position)
            if constraint.kind in OF_EVERY_REQUEST or constraint.filter == "ComputeFilter"
        ]
        aggregates, provider = table.coded["aggregates"][TableRow(position)], providers[row.uuid]
        shown = None
        if provider is not None:
            if missing := aggregates.uuids.difference(provider.aggregates):
                words = f"{len(missing)} of its aggregates missing in Placement"
                problems.append(Problem(words, OF_AGGREGATES))
            traits, members = sorted(provider.traits), sorted(provider.aggregates)
            shown = Provider(provider.inventories, provider.used, traits, members)
        nodes.append(
            NodeStatus(
                **_place(found, row),
                zone=found.zone(position),
                aggregates=[aggregate.name for aggregate in aggregates],
                seen=_text(table.services[TableRow(position)].last_seen_up),
                provider=shown,
                problems=problems,
            )
        )
    lost = [Problem("it has no compute service record", "Restart nova-compute, which makes it again.")]
    zone = cloud.conf.default_availability_zone
    rows = table.without_service.values()
    nodes += (NodeStatus(**_place(found, row), zone=zone, problems=lost) for row in rows)
    return HostStatus(time_text(found.read_at), nodes)


def _place(found: snapshot.Snapshot, row: HostRow) -> dict[str, Any]:
    cell = found.cell_names().get(row.cell_uuid, row.cell_uuid)
    names = {"host": row.host, "node": row.nodename, "uuid": row.uuid, "cell": cell}
    return {**names, "updated": _text(row.updated)}


def _smallest_flavor(providers: Mapping[str, ProviderState | None]) -> objects.Flavor:
    """Return the least that an instance may take of a host."""
    provider = next(filter(None, providers.values()), ABSENT)
    least = {
        name: max(1, inventory.min_unit, inventory.step_size)
        for name, inventory in provider.inventories.items()
    }
    amounts = {name: least.get(name, 0) for name in TAKEN} if provider.inventories else {}
    if amounts and not any(amounts.values()):  # a bare-metal node
        amounts |= dict(list(least.items())[:1])
    specs = {f"resources:{name}": str(amount) for name, amount in amounts.items()}
    sizes = {"vcpus": 1, "memory_mb": 1, "root_gb": 0, "ephemeral_gb": 0, "swap": 0}
    return objects.Flavor(name="", flavorid="", extra_specs=specs, **sizes)


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.replace(tzinfo=UTC).isoformat(timespec="seconds")
