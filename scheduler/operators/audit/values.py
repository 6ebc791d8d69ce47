"""What an audit compares, in plain values.

Times are naive UTC, as in nova's databases.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

#: Resource class -> amount.
Amounts = Mapping[str, int]

#: Service host and node name (``hypervisor_hostname``); either may be None in a database.
Place = tuple[str | None, str | None]

#: Statuses of a migration that has ended. An evacuation is ``done`` before its source is cleaned up.
ENDED = frozenset({"confirmed", "reverted", "error", "failed", "completed", "cancelled", "done"})
EVACUATION = "evacuation"

#: Statuses of a migration after which the guest is on its destination.
ARRIVED = frozenset({"completed", "confirmed", "done"})


class Provider(msgspec.Struct, frozen=True, gc=False):
    """One resource provider, as Placement has it, and the root of the tree that it belongs to."""

    uuid: str
    name: str
    root: str = msgspec.field(name="root_provider_uuid")


@dataclass(frozen=True, slots=True)
class ProviderState:
    """What Placement says about one provider.

    Attributes:
        capacity: class -> ``(total - reserved) * allocation_ratio``, as an integer.
        used: class -> amount that Placement counts as used.
        allocations: consumer UUID -> what it holds here.
        consistent: whether no allocation was added between the reading of ``allocations`` and of ``used``.
    """

    provider: Provider
    capacity: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    allocations: Mapping[str, Amounts] = field(default_factory=dict)
    consistent: bool = True


@dataclass(frozen=True, slots=True)
class ComputeNode:
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


@dataclass(frozen=True, slots=True)
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
        return self.in_flight or (self.kind == EVACUATION and self.status == "done")


@dataclass(frozen=True, slots=True)
class InstanceMapping:
    """A row of ``instance_mappings``; ``cell`` is None until the instance was scheduled."""

    cell: str | None
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ConsumerRecords:
    """All that nova's databases say about one consumer UUID.

    Attributes:
        instances: rows with this UUID; two during a resize between cells.
        migrations: rows with this UUID, or of the instance with this UUID.
        build_requested: whether there is a build request, which waits for its instance.
        build_requested_at: time of the build request, if readable.
        deleted_at: when nova deleted the instance with this UUID; None if it has no row of that.
    """

    uuid: str
    instances: tuple[InstanceRecord, ...] = ()
    migrations: tuple[MigrationRecord, ...] = ()
    mapping: InstanceMapping | None = None
    build_requested: bool = False
    build_requested_at: datetime | None = None
    deleted_at: datetime | None = None

    @property
    def own_migrations(self) -> list[MigrationRecord]:
        """Migrations that are the consumer themselves."""
        return [migration for migration in self.migrations if migration.uuid == self.uuid]
