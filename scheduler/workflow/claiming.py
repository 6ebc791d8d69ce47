"""How a request claims: what its claim session is made with."""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from functools import partial
import time

from oslo_config import cfg

from scheduler.claims.capacity import OvercommitCheck
from scheduler.claims.claim import Claimant, owner_of
from scheduler.claims.claim_session import Check, ClaimSession, check_nothing
from scheduler.claims.claimer import Claimer
from scheduler.claims.group_policy import GroupCheck
from scheduler.claims.observers import ClaimObserver
from scheduler.hosts.free_amounts import FreeAmounts
from scheduler.hosts.table import HostTable
from scheduler.nova_db.inventory import Inventory
from scheduler.placement.client import PlacementClient
from scheduler.placement.providers import ABSENT, read_provider, read_usage
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.workflow.candidate_hosts import CandidateHosts

#: The filters that enforce the policies of server groups; without them nothing does.
OF_AFFINITY = frozenset({"ServerGroupAffinityFilter", "GroupAffinityFilter"})
OF_ANTI_AFFINITY = frozenset({"ServerGroupAntiAffinityFilter", "GroupAntiAffinityFilter"})


class Claiming:
    """Opens what claims for requests. Any thread may use it."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        placement: PlacementClient,
        claimer: Claimer,
        hosts: Inventory,
        candidate_hosts: CandidateHosts,
        observer: ClaimObserver,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up.

        Args:
            hosts: What is known of the hosts.
            candidate_hosts: Knows the compute nodes that a request must not go to.
        """
        self._conf = conf
        self._placement = placement
        self._claimer = claimer
        self._hosts = hosts
        self._candidate_hosts = candidate_hosts
        self._observer = observer
        self._clock = clock

    def open(
        self, table: HostTable, request: SchedulingRequest, check: Check = check_nothing
    ) -> AbstractContextManager[ClaimSession | None]:
        """Return what claims for the request; None in the context of one that claims nothing.

        Args:
            check: Checks the chosen hosts before they are claimed.
        """
        if not request.claims:
            return nullcontext()
        kept = self._candidate_hosts.kept(request, table)
        return ClaimSession(
            self._claimer,
            self._hosts.pending,
            request,
            Claimant(
                owner_of(request), request.context, kept, table.row_of_uuid, partial(host_of_provider, table)
            ),
            clock=self._clock,
            observer=self._observer,
            capacity=self._capacity_check(table, request),
            group=self._group_check(table, request),
            check=check,
        )

    def _capacity_check(self, table: HostTable, request: SchedulingRequest) -> OvercommitCheck:
        """Return what checks the claims of a request. A scheduler without others checks too.

        Conductors claim alternates, and nova-schedulers may run at the same time: this process sees neither.
        """
        read = partial(read_usage, self._placement, context=request.context)
        return OvercommitCheck(
            FreeAmounts(table, self._hosts.pending), read, self._conf.berth.overlapping_claims
        )

    def _group_check(self, table: HostTable, request: SchedulingRequest) -> GroupCheck | None:
        """Return what checks the claims of a request for members of a group that the filters judge."""
        group, spec, context = request.server_group, request.spec, request.context
        if group is None or spec.force_hosts or spec.force_nodes:
            return None
        enabled = set(self._conf.filter_scheduler.enabled_filters)
        judged = (group.is_anti_affinity and OF_ANTI_AFFINITY & enabled) or (
            group.is_affinity and OF_AFFINITY & enabled
        )
        if not judged:
            return None
        return GroupCheck(
            group,
            frozenset(request.instance_uuids),
            self._hosts.members_of,
            self._claimer.states_of,
            lambda node: frozenset(
                (read_provider(self._placement, node, "allocations", context=context) or ABSENT).allocations
            ),
            partial(self._claimer.get_held_many, context=context),
            partial(self._names_of_nodes, table),
        )

    def _names_of_nodes(self, table: HostTable, providers: Collection[str]) -> dict[str, str]:
        """Return the service hosts of those providers that are compute nodes, also of other partitions."""
        outside = self._hosts.outside(frozenset(providers) - table.row_of_uuid.keys())
        return {
            uuid: host_of_provider(of, uuid)
            for of in (table, outside)
            for uuid in providers
            if uuid in of.row_of_uuid
        }


def keep_until_answered(request: SchedulingRequest, claims: ClaimSession) -> None:
    """Let the outcome of the reply decide on the claims; without a message that is answered they are kept."""
    if request.call is None:
        claims.keep()
    else:
        request.call.hold(claims)


def host_of_provider(table: HostTable, provider: str) -> str:
    """Return the service host of a compute node, or the provider's UUID if the table has no such node."""
    row = table.row_of_uuid.get(provider)
    return provider if row is None else table.rows[row].host
