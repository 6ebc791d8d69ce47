"""What an audit compares, in plain values, and the kinds of its findings.

Times are naive UTC, as in nova's databases.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from scheduler.placement.providers import ListedProvider

#: Resource class -> amount.
Amounts = Mapping[str, int]

#: Service host and node name (``hypervisor_hostname``); either may be None in a database.
Place = tuple[str | None, str | None]

#: Statuses of a migration that has ended. An evacuation is ``done`` before its source is cleaned up.
ENDED = frozenset({"confirmed", "reverted", "error", "failed", "completed", "cancelled", "done"})

#: Statuses of a migration after which the guest is on its destination.
ARRIVED = frozenset({"completed", "confirmed", "done"})


@dataclass(frozen=True, slots=True)
class AuditedState:
    """What Placement says about one provider.

    Attributes:
        capacity: class -> ``(total - reserved) * allocation_ratio``, as an integer.
        used: class -> amount that Placement counts as used.
        allocations: consumer UUID -> what it holds here.
        consistent: whether no allocation was added between the reading of ``allocations`` and of ``used``.
    """

    provider: ListedProvider
    capacity: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    allocations: Mapping[str, Amounts] = field(default_factory=dict)
    consistent: bool = True


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A live row of ``compute_nodes``; its UUID is that of the root provider."""

    uuid: str
    cell: str
    host: str
    name: str
    has_service: bool = True


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """A live row of ``instances``; ``changed_at`` is None where the database has no readable time."""

    uuid: str
    cell: str
    host: str | None
    node: str | None
    vm_state: str | None = None
    changed_at: datetime | None = None

    @property
    def place(self) -> Place:
        """Where it runs."""
        return self.host, self.node


@dataclass(slots=True)
class MigrationRecord:
    """A live row of ``migrations``. While in flight, its UUID may be a consumer that holds the source.

    Attributes:
        instance_gone: Whether it is known that no cell has a live row of its instance.
        gone_since: When that row was deleted; None if there is no row, or no time in it.
    """

    uuid: str
    instance: str
    cell: str
    kind: str | None
    status: str | None
    source: Place
    dest: Place
    changed_at: datetime | None = None
    instance_gone: bool = False
    gone_since: datetime | None = None

    @property
    def in_flight(self) -> bool:
        """Whether it has not ended; one that waits for its confirmation has not."""
        return self.status not in ENDED

    @property
    def keeps_source(self) -> bool:
        """Whether the instance itself may still hold the source.

        The source of an evacuation is freed when its compute starts again
        (spec: host-state-and-cells 7.6).
        """
        return self.in_flight or (self.kind == "evacuation" and self.status == "done")


@dataclass(slots=True)
class ConsumerRecords:
    """All that nova's databases say about one consumer UUID.

    Attributes:
        instances: rows with this UUID; two during a resize between cells.
        migrations: rows with this UUID, or of the instance with this UUID.
        mapped_at: time of its row in ``instance_mappings``, if there is one with a readable time.
        build_requested: whether there is a build request, which waits for its instance.
        build_requested_at: time of the build request, if readable.
        deleted_at: when nova deleted the instance with this UUID; None if it has no row of that.
    """

    uuid: str
    instances: list[InstanceRecord] = field(default_factory=list)
    migrations: list[MigrationRecord] = field(default_factory=list)
    mapped_at: datetime | None = None
    build_requested: bool = False
    build_requested_at: datetime | None = None
    deleted_at: datetime | None = None

    @property
    def own_migrations(self) -> list[MigrationRecord]:
        """Migrations that are the consumer themselves."""
        return [migration for migration in self.migrations if migration.uuid == self.uuid]


class Kind(StrEnum):
    """What is wrong. The values are part of the output and do not change."""

    NO_INSTANCE = "allocation-without-instance"
    TWO_HOSTS = "instance-on-two-hosts"
    OTHER_HOST = "allocation-on-other-host"
    NO_HOST = "allocation-without-host"
    ENDED_MIGRATION = "allocation-of-ended-migration"
    NO_ALLOCATION = "instance-without-allocation"
    OVER_COMMITTED = "inventory-over-committed"
    HIDDEN = "hidden-allocation"
    NO_SERVICE = "compute-node-without-service"


DELETE = "openstack resource provider allocation delete"
UNSET = "openstack resource provider allocation unset --provider"
HEAL = "nova-manage placement heal_allocations --instance"

NEXT_STEPS = {
    Kind.NO_INSTANCE: "Run the audit again after ten minutes. If this is still listed, check that no other "
    "service that uses Placement (such as Blazar or Zun) owns this consumer. If none does, free the "
    f"resources: `{DELETE} {{subject}}`",
    Kind.TWO_HOSTS: "Check on which of the hosts the guest runs. If it runs on {home} only, remove the "
    "other: {remove}",
    Kind.OTHER_HOST: "Check on which host the guest runs. If it runs on {home}, let nova write its "
    f"allocations again: `{DELETE} {{subject}}`, then `{HEAL} {{subject}}`",
    Kind.NO_HOST: "If the server failed or is not needed, delete it: `openstack server delete {subject}`. "
    f"If it is to be kept, free the resources: `{DELETE} {{subject}}`",
    Kind.ENDED_MIGRATION: "Check that the guest does not run on {home} any more. If so, free the resources: "
    f"`{DELETE} {{subject}}`",
    Kind.NO_ALLOCATION: f"Let nova write the allocations: `{HEAL} {{subject}}`. If that is refused because "
    "the host is full, move an instance off it first.",
    Kind.OVER_COMMITTED: "Move instances off the host: openstack server migrate. If the ratio or the "
    "reserved amount was changed on purpose, nothing needs to be done: the host gets no new instances until "
    "it has room again.",
    Kind.HIDDEN: "Let Placement create the missing consumer records: `placement-manage db "
    "online_data_migrations`. Then run the audit again; it shows which consumers they are.",
    Kind.NO_SERVICE: "Restart nova-compute on the host, which makes the record again. Only if the host is "
    "gone, delete its row of compute_nodes and its resource provider.",
}

#: For a server that was deleted minutes ago. nova-compute may yet free what it holds, as when it was deleted
#: in a live migration.
WAIT = "Run the audit again after ten minutes: nova-compute may free the resources by then."

#: For an instance whose last migration has ended on a host that its row does not name.
GUEST_ARRIVED = (
    "Check on which host the guest runs. It is probably {arrived}: keep the allocation there, and correct "
    "the host of the instance in nova's database."
)


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One thing that is wrong.

    Attributes:
        subject: UUID of the consumer, or of the provider for findings about inventories.
        host: the host or provider where resources are held; several are joined by commas.
        detail: what was found, one or two plain sentences.
        next_step: what to do about it, with commands in backticks.
    """

    kind: Kind
    subject: str
    host: str
    detail: str
    next_step: str


@dataclass(slots=True)
class Audited:
    """What an audit found.

    Attributes:
        findings: in the order of their second reads; at most ``limit``.
        left_out: number of findings beyond those.
        counts: what was compared: name -> number.
    """

    findings: list[AuditFinding] = field(default_factory=list)
    left_out: int = 0
    counts: dict[str, int] = field(default_factory=dict)


def finding(kind: Kind, subject: str, host: str, detail: str, step: str = "", **words: str) -> AuditFinding:
    """Return a finding whose next step, by default that of its kind, names the subject and these words."""
    text = step or NEXT_STEPS[kind]
    return AuditFinding(kind, subject, host, detail, text.format(subject=subject, **words))
