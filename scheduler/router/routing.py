"""Which partitions a request is tried in, and in which order.

::

    a hard server group ─▶ the same order for all its members
    any other request ──▶ the zone ─▶ the flavor ─▶ spread by the instance

Partitions divide work, they forbid nothing: a request that the first one has no host for is tried in each of
the others. What may go where is for filters, traits and aggregates to say, as on a cloud without partitions.

The order depends on the request alone, so that a request whose router dies takes the same way once more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from scheduler.conf.partitions import Partition

HARD_POLICIES = frozenset({"affinity", "anti-affinity"})
"""Policies of server groups that no member may break."""


@dataclass(frozen=True, slots=True)
class RoutingFacts:
    """The parts of a request that routing uses.

    Attributes:
        key: Spreads requests for which several partitions are alike: the first instance.
        zone: The availability zone that it names; None: none.
        group: The server group of a hard policy that it is for; None: none.
    """

    key: str = ""
    zone: str | None = None
    flavor: frozenset[str | None] = frozenset()
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None

    @classmethod
    def of(cls, spec: Any, instance_uuids: Any = None) -> "RoutingFacts":
        """Return the parts of a RequestSpec on the wire that routing uses; a wrong request is rejected later.

        Args:
            spec: The envelope of the object; anything else has no facts.
            instance_uuids: The instances; the first one matters.
        """
        fields = _fields(spec)
        flavor, group = _fields(fields.get("flavor")), _fields(fields.get("instance_group"))
        extra_specs = flavor.get("extra_specs")
        policies = {group.get("policy"), *_texts(group.get("policies"))}
        zone = fields.get("availability_zone")
        return cls(
            key=next(iter(_texts(instance_uuids)), ""),
            zone=zone if isinstance(zone, str) and zone else None,
            flavor=frozenset(_texts([flavor.get("name"), flavor.get("flavorid")])),
            extra_specs=extra_specs if isinstance(extra_specs, dict) else {},
            group=str(group.get("uuid")) if policies & HARD_POLICIES else None,
        )


def _fields(envelope: Any) -> Mapping[str, Any]:
    """Return the fields of an object on the wire (spec: wire-and-config 2.2); none of anything else."""
    found = envelope.get("nova_object.data") if isinstance(envelope, dict) else None
    return found if isinstance(found, dict) else {}


def _texts(values: Any) -> list[str]:
    return [each for each in values if isinstance(each, str)] if isinstance(values, list) else []


#: How well a partition fits the zone or the flavor of a request, best first: it names what is requested; is
#: the default, for flavors that it does not name; names none, and takes all alike; names others.
NAMED, DEFAULT, ANY, OTHERS = range(4)


def in_order(facts: RoutingFacts, partitions: Iterable[Partition]) -> list[Partition]:
    """Return the partitions in the order in which a request is tried in them.

    Members of a server group with a hard policy may have different flavors and zones. All are tried in the
    same order, by a hash of the group, so that one partition decides on them.
    """
    if facts.group is not None:
        return sorted(partitions, key=lambda each: _hash(facts.group, each))
    return sorted(
        partitions, key=lambda each: (zone_fit(facts, each), flavor_fit(facts, each), _hash(facts.key, each))
    )


def why(facts: RoutingFacts, partition: Partition) -> str:
    """Return in a few words why a request is tried in a partition before others."""
    if facts.group is not None:
        return f"by server group {facts.group}"
    zone = ["by zone"] if zone_fit(facts, partition) == NAMED else []
    flavor = {NAMED: ["by flavor"], DEFAULT: ["the default"]}.get(flavor_fit(facts, partition), [])
    return ", ".join(zone + flavor) or "by instance"


def zone_fit(facts: RoutingFacts, partition: Partition) -> int:
    """Return how well a partition fits the zone of a request."""
    if facts.zone is None or not partition.zones:
        return ANY
    return NAMED if facts.zone in partition.zones else OTHERS


def flavor_fit(facts: RoutingFacts, partition: Partition) -> int:
    """Return how well a partition fits the flavor of a request."""
    if not partition.flavors.isdisjoint(facts.flavor) or any(
        key in facts.extra_specs and value in {None, facts.extra_specs[key]}
        for key, value in partition.extra_specs
    ):
        return NAMED
    if partition.default:
        return DEFAULT
    return OTHERS if partition.names_flavors else ANY


def _hash(key: str | None, partition: Partition) -> bytes:
    return blake2b(f"{key}/{partition.name}".encode(), digest_size=8).digest()
