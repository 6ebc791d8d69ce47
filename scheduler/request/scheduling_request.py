"""One request as everything after the manager knows it: plain values, made once from the wire objects.

``spec`` always names the RequestSpec of the wire, ``request`` always a ``SchedulingRequest``. A request does
not change while hosts are chosen; what does is its ``Progress``.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
import math
from typing import Any

from scheduler import objects
from scheduler.numa.guest import GuestTopology, guest_topology_from
from scheduler.pci.requests import PciRequest, requests_from
from scheduler.request.past import Past
from scheduler.request.progress import Progress
from scheduler.request.query import Query

AFFINITY, ANTI_AFFINITY = "affinity", "anti-affinity"


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """The server group of a request.

    Attributes:
        uuid: None in requests of the oldest callers.
        policy: ``affinity``, ``anti-affinity``, ``soft-affinity`` or ``soft-anti-affinity``.
        policies: The policies of the older form of the group; ``policy`` alone where it has none.
        members: Instance uuids, the instances of this request among them.
        hosts: Service hosts where members are.
        name: Its name for users; None if the caller does not send it.
    """

    uuid: str | None
    policy: str | None
    policies: tuple[str | None, ...]
    members: tuple[str, ...]
    hosts: tuple[str, ...]
    _wire: objects.InstanceGroup = field(repr=False)
    name: str | None = None

    @classmethod
    def of_wire(cls, group: objects.InstanceGroup) -> "ServerGroup":
        """Return the plain values of a wire InstanceGroup, whose parts may be unset."""
        policies = (group.policies if "policies" in group else None) or [group.policy]
        return cls(
            uuid=group.uuid if "uuid" in group else None,
            policy=group.policy,
            policies=tuple(policies),
            members=tuple(group.members or ()),
            hosts=tuple(group.hosts or ()),
            _wire=group,
            name=group.name if "name" in group else None,
        )

    @property
    def text(self) -> str:
        return f"{self.name} ({self.uuid})" if self.name else str(self.uuid)

    @property
    def is_anti_affinity(self) -> bool:
        """Whether its members must not share hosts, or only some of them."""
        return self.policy == ANTI_AFFINITY

    @property
    def is_affinity(self) -> bool:
        """Whether its members must share one host."""
        return AFFINITY in self.policies

    @property
    def max_server_per_host(self) -> int:
        """How many members may share a host under ``anti-affinity``.

        Raises:
            InvalidField: The rule of the group is no number.
        """
        return self._wire.rules.get("max_server_per_host", 1)


@dataclass(frozen=True, slots=True)
class SchedulingRequest:
    """A request for hosts.

    Attributes:
        spec: The RequestSpec of the wire, with what pre-filters added.
        instance_uuids: One for each host that is wanted. Stand-ins if the caller named none.
        claims: Whether chosen hosts are claimed; not so if the caller named no instances, nor for a check.
        deadline: When the caller stops waiting, in seconds of ``time.monotonic``.
        arrived_at: When the request arrived, in the same seconds; None if that does not matter.
        queries: What Placement is asked for; empty before the pre-filters were run.
        is_rebuild: Whether it only checks that the host of an instance suits another image
            (spec: filters-and-weighers 1.4).
        guest: The NUMA topology of the guest; None for none.
        pci_requests: The PCI requests; None if the spec has no such field set (nothing is consumed then).
        server_group: The server group as it was when the request was made, or as it was brought up to date.
        progress: What changes while hosts are chosen.
        notes: What a user may not expect of it, in sentences; the same list for all versions of a request.
        kept_providers: Resource providers whose allocations the instance keeps besides those that it gets, as
            those of an ignored host.
        was_begun: Whether it was begun here before: another writer was first, or a dependency unavailable.
    """

    spec: objects.RequestSpec
    context: Any
    instance_uuids: tuple[str, ...]
    claims: bool
    with_alternates: bool
    deadline: float
    is_rebuild: bool
    guest: GuestTopology | None
    pci_requests: tuple[PciRequest, ...] | None
    server_group: ServerGroup | None
    progress: Progress
    notes: list[str] = field(default_factory=list, compare=False)
    kept_providers: frozenset[str] = frozenset()
    arrived_at: float | None = None
    queries: tuple[Query, ...] = ()
    was_begun: bool = False

    @classmethod
    def of(
        cls,
        spec: objects.RequestSpec,
        instance_uuids: Sequence[str] | None = None,
        context: Any = None,
        *,
        with_alternates: bool = False,
        deadline: float = math.inf,
        arrived_at: float | None = None,
    ) -> "SchedulingRequest":
        """Make the request that a call of ``select_destinations`` describes.

        Args:
            instance_uuids: None: hosts for ``spec.num_instances`` are chosen and none is claimed.
            deadline: When the caller stops waiting, in seconds of ``time.monotonic``.
            arrived_at: When the request arrived, in the same seconds.
        """
        uuids = _stand_ins(spec) if instance_uuids is None else tuple(instance_uuids)
        guest = guest_topology_from(spec.numa_topology)
        group = ServerGroup.of_wire(spec.instance_group) if spec.instance_group else None
        return cls(
            spec=spec,
            context=context,
            instance_uuids=uuids,
            claims=instance_uuids is not None and not spec.is_rebuild,
            with_alternates=with_alternates,
            deadline=deadline,
            arrived_at=arrived_at,
            is_rebuild=spec.is_rebuild,
            guest=guest,
            pci_requests=None if spec.pci_requests is None else requests_from(spec.pci_requests),
            server_group=group,
            progress=Progress(
                instance_uuid=uuids[0] if uuids else "",
                guest=guest,
                provider_uuids=spec.get_request_group_mapping(),
                group_members=group.members if group else (),
                group_hosts=group.hosts if group else (),
            ),
        )

    def with_group(self, members: Sequence[str], hosts: Sequence[str]) -> "SchedulingRequest":
        """Return the same request with its server group brought up to date."""
        if self.server_group is None:
            return self
        group = replace(self.server_group, members=tuple(members), hosts=tuple(hosts))
        progress = copy(self.progress)
        progress.group_members, progress.group_hosts = group.members, group.hosts
        return replace(self, server_group=group, progress=progress)

    def restarted(self) -> "SchedulingRequest":
        """Return the same request as it was before any host was chosen for it."""
        progress = copy(self.progress)
        progress.instance_uuid = self.instance_uuids[0] if self.instance_uuids else ""
        progress.guest = self.guest
        group = self.server_group
        progress.group_members = group.members if group else ()
        progress.group_hosts = group.hosts if group else ()
        return replace(self, progress=progress)

    def write_progress(self) -> None:
        """Bring the RequestSpec up to date, for operators' classes and for notifications."""
        self.progress.write_to(self.spec)

    @property
    def flavor(self) -> objects.Flavor:
        return self.spec.flavor

    @property
    def extra_specs(self) -> Mapping[str, str]:
        """The extra specs of the flavor; empty if it has none."""
        return self.spec.flavor.extra_specs or {}

    def image_property(self, name: str) -> Any:
        """Return a property of the image; None if it is unset, or if there is no image."""
        return self.spec.image.properties.get(name) if self.spec.image else None

    def hint(self, name: str, default: Any = None) -> Any:
        """Return the value of a scheduler hint; a list of one element is unwrapped."""
        return self.spec.get_scheduler_hint(name, default)

    @property
    def call(self) -> Any:
        """The call that is being answered (``scheduler/rpc/calls.py``); None outside of a server."""
        return getattr(self.context, "call", None)

    @property
    def received_at(self) -> float:
        """When its message was received, in the same seconds; -infinity if that does not matter."""
        arrived_at = -math.inf if self.arrived_at is None else self.arrived_at
        return min(arrived_at, self.call.received) if self.call else arrived_at

    @property
    def past(self) -> Past:
        """Whether it may have been run before, or its caller may have left."""
        past = self.call.past if self.call else Past.NONE
        return past or (Past.BEGUN if self.was_begun else Past.NONE)

    @property
    def moves_instance(self) -> bool:
        """Whether the instance exists already, and is resized, migrated, evacuated or unshelved.

        Conductors name the cell of such an instance as destination, or the failed host of an evacuation as
        one to ignore.
        """
        destination = self.spec.requested_destination
        in_cell = bool(destination and "cell" in destination and destination.cell)
        return in_cell or bool(self.spec.ignore_hosts)

    @property
    def cell_uuid(self) -> str | None:
        """The one cell that the request may go to; None: any enabled one (spec: host-state-and-cells 2.4)."""
        destination = self.spec.requested_destination
        if not destination or "cell" not in destination or not destination.cell:
            return None
        return None if destination.allow_cross_cell_move else destination.cell.uuid


def _stand_ins(spec: objects.RequestSpec) -> tuple[str, ...]:
    uuid = spec.instance_uuid if "instance_uuid" in spec else ""
    return (uuid,) * spec.num_instances
