"""The comparison of Placement with nova's databases. No I/O.

What is in flight is no finding: a build, a move, an evacuation whose source has not come back, and whatever
changed less than the grace period ago (spec: host-state-and-cells 7.4-7.7).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from scheduler.operators.audit.values import (
    ARRIVED,
    GUEST_ARRIVED,
    UNSET,
    WAIT,
    Amounts,
    AuditedState,
    AuditFinding,
    ConsumerRecords,
    InstanceRecord,
    Kind,
    MigrationRecord,
    NodeRecord,
    Place,
    finding,
)
from scheduler.placement.providers import ListedProvider

#: For so long nova-compute may yet free what a deleted instance holds.
TRANSIENT = timedelta(minutes=10)

#: Provider UUID -> what a consumer holds there.
Holding = Mapping[str, Amounts]


@dataclass(slots=True)
class Topology:
    """The providers and compute nodes of the cloud.

    Attributes:
        providers, nodes: by UUID.
        sharing: roots of sharing providers, which serve instances of other hosts.
    """

    providers: dict[str, ListedProvider] = field(default_factory=dict)
    sharing: frozenset[str] = frozenset()
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    _places: dict[tuple[str, str | None, str | None], str] = field(default_factory=dict)
    _alike: dict[tuple[str, str | None, str | None], set[str]] = field(default_factory=dict)

    def add_nodes(self, nodes: Iterable[NodeRecord]) -> None:
        """Add compute nodes, or replace what was known of them."""
        for node in nodes:
            self.nodes[node.uuid] = node
            self._places[node.cell, node.host, node.name] = node.uuid
            for key in ((node.cell, node.host, None), (node.cell, None, node.name)):
                self._alike.setdefault(key, set()).add(node.uuid)

    def node_at(self, cell: str, place: Place) -> str | None:
        """Return the UUID of the compute node there, or None.

        A node that another service host has taken over is found by its name: its instances keep the old host
        (spec: host-state-and-cells 8). An instance whose node is not known is on the only one of its host, as
        is one that keeps a name which the node had before: the short one, or that of another domain.
        """
        host, name = place
        known = self._places.get((cell, host, name))
        if known or host is None:
            return known
        of_name = self._alike.get((cell, None, name)) if name else None
        alike = of_name or self._alike.get((cell, host, None), set())
        return next(iter(alike)) if len(alike) == 1 else None

    def root_of(self, provider: str) -> str:
        """Return the root of the provider's tree; an unknown provider counts as a root."""
        known = self.providers.get(provider)
        return known.root_provider_uuid if known else provider

    def label(self, root: str) -> str:
        """Return how an operator calls the host or provider."""
        node = self.nodes.get(root)
        if node:
            return node.host if node.host == node.name else f"{node.host} ({node.name})"
        provider = self.providers.get(root)
        return provider.name if provider else root


@dataclass(frozen=True, slots=True)
class ConsumerCheck:
    """Compares one consumer at a time with nova's records.

    Attributes:
        now: time of the reading, naive UTC.
        grace: age below which a record is regarded as in flight.
    """

    topology: Topology
    now: datetime
    grace: timedelta

    def consumer(self, holding: Holding, records: ConsumerRecords) -> AuditFinding | None:
        """Return what is wrong with what a consumer holds; None if it is as nova says.

        ``holding`` may be part of what the consumer holds; the kind of a finding is right only for the whole.
        """
        if records.instances:
            return self._instance(holding, records)
        if not holding:
            return None
        if records.own_migrations:
            return self._migration(holding, records)
        return self._unknown(holding, records)

    # -- without an instance

    def _migration(self, holding: Holding, records: ConsumerRecords) -> AuditFinding | None:
        if any(
            (one.in_flight and not one.instance_gone)
            or self._recent(one.changed_at)
            or self._recent(one.gone_since)
            for one in records.own_migrations
        ):
            return None
        migration = records.own_migrations[0]
        state = f"ended as {migration.status} and"
        if migration.in_flight:
            since = _since(migration.gone_since)
            state = f"is {migration.status}, and nova has deleted the instance{since}. It"
        detail = f"Migration of instance {migration.instance} {state} still holds {self._amounts(holding)}."
        home = migration.source[0] or "the source host"
        return finding(Kind.ENDED_MIGRATION, records.uuid, self._hosts(holding), detail, home=home)

    def _unknown(self, holding: Holding, records: ConsumerRecords) -> AuditFinding | None:
        if any(map(self._recent, (records.build_requested_at, records.mapped_at, records.deleted_at))):
            return None
        known = "No cell has an instance or a migration with this UUID"
        if records.deleted_at:
            known = f"nova deleted the instance{_since(records.deleted_at)}"
        if records.build_requested:
            known += ", but a build request waits since " + _time(records.build_requested_at)
        detail = f"{known}. It holds {self._amounts(holding)}."
        waits = records.deleted_at is not None and self.now - records.deleted_at < TRANSIENT
        step = WAIT if waits else ""
        return finding(Kind.NO_INSTANCE, records.uuid, self._hosts(holding), detail, step)

    # -- with one

    def _instance(self, holding: Holding, records: ConsumerRecords) -> AuditFinding | None:
        if any(self._recent(instance.changed_at) for instance in records.instances):
            return None
        if not any(instance.host for instance in records.instances):
            return self._without_host(holding, records)
        roots = {self.topology.root_of(provider) for provider in holding} - self.topology.sharing
        if not roots:
            return self._without_allocation(records)
        wrong = roots - self._expected(records)
        if not wrong:
            return None
        return self._misplaced(holding, records, roots, wrong)

    def _without_host(self, holding: Holding, records: ConsumerRecords) -> AuditFinding | None:
        if not holding or self._moves(records):
            return None
        state = records.instances[0].vm_state or "unknown"
        detail = f"The instance has no host (state {state}) and holds {self._amounts(holding)}."
        return finding(Kind.NO_HOST, records.uuid, self._hosts(holding), detail)

    def _without_allocation(self, records: ConsumerRecords) -> AuditFinding | None:
        if self._moves(records):
            return None
        instance = _placed(records)
        detail = f"The instance runs on host {instance.host} and holds nothing on any compute node."
        return finding(Kind.NO_ALLOCATION, records.uuid, instance.host or "", detail)

    def _misplaced(
        self, holding: Holding, records: ConsumerRecords, roots: set[str], wrong: set[str]
    ) -> AuditFinding:
        homes = {self.topology.node_at(one.cell, one.place) for one in records.instances}
        instance = _placed(records)
        others = ", ".join(sorted(self.topology.label(root) for root in wrong))
        held = {
            provider: amounts
            for provider, amounts in holding.items()
            if self.topology.root_of(provider) in wrong
        }
        kind = Kind.TWO_HOSTS if roots & homes else Kind.OTHER_HOST
        step, words = "", dict[str, str]()
        if arrival := self._arrival(records, wrong):
            explained = f"a {arrival.kind} there ended as {arrival.status}{_since(arrival.changed_at)}"
            step, words["arrived"] = GUEST_ARRIVED, arrival.dest[0] or others
        else:
            explained, words["home"] = "no migration explains that", instance.host or ""
            words["remove"] = ", ".join(f"`{UNSET} {each} {records.uuid}`" for each in sorted(held))
        detail = (
            f"nova has the instance on host {instance.host}. It {'also ' * (kind is Kind.TWO_HOSTS)}holds "
            f"{self._amounts(held)} on {others}; {explained}."
        )
        return finding(kind, records.uuid, self._hosts(holding), detail, step, **words)

    def _arrival(self, records: ConsumerRecords, wrong: set[str]) -> MigrationRecord | None:
        """Return the last migration of an instance, if it ended on a host where nova does not have it.

        The write of the new host to the row of the instance has failed then, or was undone.
        """
        ended = [one for one in records.migrations if not one.in_flight]
        last = max(ended, key=lambda one: one.changed_at or datetime.min, default=None)  # noqa: DTZ901 - as nova's
        if last is None or last.status not in ARRIVED:
            return None
        cells = {last.cell, *(one.cell for one in records.instances)}
        return last if {self.topology.node_at(cell, last.dest) for cell in cells} & wrong else None

    def _expected(self, records: ConsumerRecords) -> set[str | None]:
        found = {self.topology.node_at(one.cell, one.place) for one in records.instances}
        for migration in records.migrations:
            if migration.keeps_source or self._recent(migration.changed_at):
                # the two hosts of a move between cells are in different cells
                cells = {migration.cell, *(one.cell for one in records.instances)}
                found |= {
                    self.topology.node_at(cell, place)
                    for cell in cells
                    for place in (migration.source, migration.dest)
                }
        return found

    def _moves(self, records: ConsumerRecords) -> bool:
        return any(one.in_flight or self._recent(one.changed_at) for one in records.migrations)

    # -- words

    def _recent(self, moment: datetime | None) -> bool:
        return moment is not None and self.now - moment < self.grace

    def _hosts(self, holding: Holding) -> str:
        roots = {self.topology.root_of(provider) for provider in holding}
        return ", ".join(sorted(self.topology.label(root) for root in roots))

    def _amounts(self, holding: Holding) -> str:
        total = _summed(holding.values())
        return ", ".join(f"{name} {amount}" for name, amount in sorted(total.items()))


def inventories(state: AuditedState, host: str) -> list[AuditFinding]:
    """Return what is wrong with the numbers of one provider.

    Allocations that count as used may be shown by no consumer (spec: placement-and-workflow 4.5).
    """
    seen, name, found = _summed(state.allocations.values()), state.provider.name, []
    used = sorted(state.used.items())
    over = [
        f"{each} {n} of {state.capacity.get(each, 0)}" for each, n in used if n > state.capacity.get(each, 0)
    ]
    hidden = [f"{each} {n - seen[each]}" for each, n in used if n > seen[each] and state.consistent]
    if over:
        detail = f"More is used than provider {name} has: {', '.join(over)}."
        found.append(finding(Kind.OVER_COMMITTED, state.provider.uuid, host, detail))
    if hidden:
        detail = f"Placement counts as used on provider {name}, for no consumer: {', '.join(hidden)}."
        found.append(finding(Kind.HIDDEN, state.provider.uuid, host, detail))
    return found


def without_service(node: NodeRecord, host: str) -> AuditFinding:
    """Return the finding about a compute node whose host has no service record."""
    detail = "nova has no compute service record of this host, so that it gets no instances."
    return finding(Kind.NO_SERVICE, node.uuid, host, detail)


def _summed(found: Iterable[Amounts]) -> Counter[str]:
    total: Counter[str] = Counter()
    for amounts in found:
        total.update(amounts)
    return total


def _placed(records: ConsumerRecords) -> InstanceRecord:
    return next(instance for instance in records.instances if instance.host)


def _since(moment: datetime | None) -> str:
    return f" at {_time(moment)}" if moment else ""


def _time(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else "an unknown time"
