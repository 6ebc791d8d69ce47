"""What a manager decides in: hosts, the mirror and Placement as they are now, and what claims there."""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
import time
from typing import Any, Protocol

from oslo_config import cfg

from scheduler import objects
from scheduler.claims.checks import CapacityCheck, GroupCheck
from scheduler.claims.claims import Claims, Pass, Winners, owner_of
from scheduler.claims.session import NothingSent, Session
from scheduler.hosts.free_amounts import free_amounts
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.nova_db.inventory import HostInventory
from scheduler.placement.answer import Candidates
from scheduler.placement.client import PlacementClient
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.providers import ABSENT, read_provider, read_usage
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.driver import FilterDriver
from scheduler.selection.mirrored_hosts import MirroredHosts
from scheduler.selection.server_groups import ServerGroups
from scheduler.workflow.candidate_hosts import CandidateHosts
from scheduler.workflow.decide import Offer

#: The filters that enforce the policies of server groups; without them nothing does.
OF_AFFINITY = frozenset({"ServerGroupAffinityFilter", "GroupAffinityFilter"})
OF_ANTI_AFFINITY = frozenset({"ServerGroupAntiAffinityFilter", "GroupAntiAffinityFilter"})


class Announcer(Protocol):
    """Where requests are announced."""

    def select_destinations_start(self, context: Any, spec: objects.RequestSpec) -> None:
        """Announce that hosts are being chosen for a request."""

    def select_destinations_end(self, context: Any, spec: objects.RequestSpec) -> None:
        """Announce that the hosts of a request were chosen."""

    def stop(self, timeout: float) -> None:
        """Send what still waits, in ``timeout`` seconds at most."""


@dataclass(frozen=True)
class LiveWorld:
    """A ``decide.World``, shared by all requests. Any thread may use it.

    Attributes:
        driver: Narrows, filters and weighs hosts, and chooses among them.
        placement: Answers questions on single providers.
        hosts: What is known of the hosts.
        candidate_hosts: Finds the hosts of a request.
        mirror: What is known of Placement's compute nodes.
        mirrored_hosts: Finds hosts by the mirror.
        groups: Serves the requests of one affinity or soft-affinity group one after the other.
        claims: Claims hosts.
        notifications: Where requests are announced.
        clock: Seconds that only grow.
    """

    conf: cfg.ConfigOpts
    driver: FilterDriver
    placement: PlacementClient
    hosts: HostInventory
    candidate_hosts: CandidateHosts
    mirror: CandidateMirror
    mirrored_hosts: MirroredHosts
    groups: ServerGroups
    claims: Claims
    notifications: Announcer
    clock: Callable[[], float] = time.monotonic

    def queries(self, request: SchedulingRequest) -> tuple[Query, ...]:
        return self.candidate_hosts.queries(request)

    def mirrored(self, request: SchedulingRequest) -> Offer | None:
        """Return the hosts of the mirror, which a claim must check: without claims it is of no use.

        ``kept_providers`` is set only after a first attempt, which used the mirror.
        """
        if not request.claims or request.kept_providers:
            return None
        table = partial(self.candidate_hosts.table, request)
        found = self.mirrored_hosts.find(request.queries, table, request.cell_uuid)
        if found is None:
            return None
        hosts, answer = found
        winners = self.mirror.check(answer, request.context)
        return Offer(hosts, answer.usage, winners=winners, exact=False, age=self.mirror.age())

    def ask_placement(self, request: SchedulingRequest) -> Candidates:
        return self.candidate_hosts.ask_placement(request)

    def offered(self, found: Candidates, request: SchedulingRequest, *, late: bool) -> Offer:
        hosts = self.candidate_hosts.offered(found, request, 0.0 if late else None)
        return Offer(
            hosts,
            found.usage,
            is_cut=found.truncated and len(hosts) != len(found.by_root),
            recover=partial(self.candidate_hosts.recover, found, hosts, request),
            recount=partial(self.candidate_hosts.recount, hosts, request),
        )

    def to_check(self, request: SchedulingRequest) -> HostView:
        return self.candidate_hosts.to_check(request)

    def turn(self, request: SchedulingRequest) -> AbstractContextManager[SchedulingRequest]:
        return self.groups.serialized(request, self.hosts)

    def now(self) -> float:
        return self.clock()

    # -- claims ----------------------------------------------------------------------------------------------

    def session(self, request: SchedulingRequest) -> Session:
        """Return what claims for a request."""
        if not request.claims:
            return NothingSent()
        return Session(self.claims, self.hosts.pending, request, self._prepare, self.clock)

    def _prepare(self, table: HostTable, request: SchedulingRequest, winners: Winners) -> Pass:
        """Return what claims go by. A scheduler without others checks the capacity, too.

        Conductors claim alternates, and nova-schedulers may run at the same time: this process sees neither.
        """
        kept, context = self.candidate_hosts.kept(request, table), request.context
        host_name = partial(host_of_provider, table)
        read = partial(read_usage, self.placement, context=context)
        others = self.conf.berth.overlapping_claims
        return Pass(
            owner_of(request),
            context,
            kept,
            table.row_of_uuid,
            host_name,
            winners,
            CapacityCheck(partial(free_amounts, table, self.hosts.pending), read, others),
            self._group_check(table, request),
        )

    def _group_check(self, table: HostTable, request: SchedulingRequest) -> GroupCheck | None:
        """Return what looks after a member of a group that the filters judge."""
        group, spec, context = request.server_group, request.spec, request.context
        if group is None or spec.force_hosts or spec.force_nodes:
            return None
        enabled = set(self.conf.filter_scheduler.enabled_filters)
        judged = (group.is_anti_affinity and OF_ANTI_AFFINITY & enabled) or (
            group.is_affinity and OF_AFFINITY & enabled
        )
        if not judged:
            return None
        return GroupCheck(
            group,
            frozenset(request.instance_uuids),
            self.hosts.members_of,
            self.claims.states_of,
            self.hosts.instances.locate,
            lambda node: frozenset(
                (read_provider(self.placement, node, "allocations", context=context) or ABSENT).allocations
            ),
            partial(self.claims.read, context=context),
            partial(self._names_of_nodes, table),
        )

    def _names_of_nodes(self, table: HostTable, providers: Collection[str]) -> dict[str, str]:
        """Return the service hosts of those providers that are compute nodes, also of other partitions."""
        outside = self.hosts.outside(frozenset(providers) - table.row_of_uuid.keys())
        return {
            uuid: host_of_provider(of, uuid)
            for of in (table, outside)
            for uuid in providers
            if uuid in of.row_of_uuid
        }


def host_of_provider(table: HostTable, provider: str) -> str:
    """Return the service host of a compute node, or the provider's UUID if the table has no such node."""
    row = table.row_of_uuid.get(provider)
    return provider if row is None else table.rows[row].host
