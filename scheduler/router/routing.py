"""Which partition a request is tried in next.

::

    the host that it names ─▶ the cell ─▶ the zone ─▶ the flavor ─▶ most room
    └──── only there ──────────────────┘  └── these first, others after them ┘

Partitions divide work, they forbid nothing: a request that the first one has no host for is tried in each of
the others. What may go where is for filters, traits and aggregates to say, as on a cloud without partitions.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from scheduler.conf.partitions import Partition
from scheduler.request import targets
from scheduler.request.reading import read
from scheduler.request.scheduling_request import SchedulingRequest


@dataclass(frozen=True, slots=True)
class RoutingFacts:
    """What routing looks at of a request.

    Attributes:
        host: The one host, or node, that it may go to; None: any.
        cell_uuid: The one cell that it may go to; None: any.
        zone: The availability zone that it names; None: none.
        flavor: Name and id of its flavor.
        extra_specs: The extra specs of its flavor.
        memory_mb: MiB of memory that all its instances take.
    """

    host: str | None = None
    cell_uuid: str | None = None
    zone: str | None = None
    flavor: frozenset[str | None] = frozenset()
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    memory_mb: int = 0

    @classmethod
    def of(cls, request: SchedulingRequest) -> "RoutingFacts":
        """Return what routing looks at of a request; what it lacks is refused later."""
        target = targets.named_target(request.spec)
        flavor = request.flavor
        return cls(
            host=(target.host or target.node) if target else None,
            cell_uuid=request.cell_uuid,
            zone=read(request.spec, "availability_zone") or None,
            flavor=frozenset({read(flavor, "name"), read(flavor, "flavorid")}),
            extra_specs=read(flavor, "extra_specs", {}),
            memory_mb=read(flavor, "memory_mb", 0) * len(request.instance_uuids),
        )


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition as it is known when a request comes.

    Attributes:
        partition: The partition.
        alive: Whether a scheduler of it was heard of lately.
        room: The share of its memory that is free, 0 to 1.
        has_target: Whether the host or cell that the request names is in it; None if that is not known, or if
            it names none.
    """

    partition: Partition
    alive: bool = True
    room: float = 0.0
    has_target: bool | None = None


class Fit(IntEnum):
    """How well a partition fits the zone or the flavor of a request; the lowest is tried first.

    Attributes:
        NAMED: It names what is requested.
        DEFAULT: It is the default, for flavors that it does not name.
        ANY: It names none, and takes all alike.
        OTHERS: It names others.
    """

    NAMED = 0
    DEFAULT = 1
    ANY = 2
    OTHERS = 3


def eligible(states: Iterable[PartitionState]) -> list[PartitionState]:
    """Return the partitions that may have a host for the request.

    One that is known to have the host or cell that the request names rules out all others. If none has it as
    far as is known, what is known may be wrong: then all may have it.
    """
    known = list(states)
    possible = [state for state in known if state.has_target is not False]
    certain = [state for state in possible if state.has_target]
    return certain or possible or known


def next_partition(
    facts: RoutingFacts, states: Iterable[PartitionState], tried: Collection[str] = ()
) -> PartitionState | None:
    """Return the partition to try a request in.

    Args:
        facts: The request.
        states: All partitions.
        tried: Names of those that have no host for it.

    Returns:
        None if none is left that is alive and may have a host.
    """
    left = [state for state in eligible(states) if state.alive and state.partition.name not in tried]
    return min(left, key=lambda state: _rank(facts, state), default=None)


def why(facts: RoutingFacts, state: PartitionState) -> str:
    """Return in a few words why a request is tried in a partition before others."""
    if state.has_target:
        return f"it has host {facts.host}" if facts.host else f"it has cell {facts.cell_uuid}"
    reasons = [f"it is for zone {facts.zone}"] if zone_fit(facts, state.partition) is Fit.NAMED else []
    fit = flavor_fit(facts, state.partition)
    reasons += {Fit.NAMED: ["it is for the flavor"], Fit.DEFAULT: ["it is the default"]}.get(fit, [])
    return ", ".join([*reasons, f"{state.room:.0%} of its memory is free"])


def _rank(facts: RoutingFacts, state: PartitionState) -> tuple[Fit, Fit, float, str]:
    partition = state.partition
    return zone_fit(facts, partition), flavor_fit(facts, partition), -state.room, partition.name


def zone_fit(facts: RoutingFacts, partition: Partition) -> Fit:
    """Return how well a partition fits the zone of a request."""
    if facts.zone is None or not partition.zones:
        return Fit.ANY
    return Fit.NAMED if facts.zone in partition.zones else Fit.OTHERS


def flavor_fit(facts: RoutingFacts, partition: Partition) -> Fit:
    """Return how well a partition fits the flavor of a request."""
    if _names_flavor(facts, partition):
        return Fit.NAMED
    if partition.default:
        return Fit.DEFAULT
    return Fit.OTHERS if partition.names_flavors else Fit.ANY


def _names_flavor(facts: RoutingFacts, partition: Partition) -> bool:
    return not partition.flavors.isdisjoint(facts.flavor) or any(
        key in facts.extra_specs and value in {None, facts.extra_specs[key]}
        for key, value in partition.extra_specs
    )
