"""How a request claims: what its claim session is made with."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
import time

from oslo_config import cfg

from scheduler.claims.capacity import CapacityCheck, OvercommitCheck
from scheduler.claims.claim_session import Check, ClaimSession, ComputeNodes, check_nothing
from scheduler.claims.claimer import Claimer
from scheduler.claims.observers import MirrorAndOthers
from scheduler.claims.spool import Kept
from scheduler.hosts.free_amounts import FreeAmounts
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.table import HostTable
from scheduler.placement.client import PlacementClient
from scheduler.placement.providers import read_usage
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.workflow.candidate_hosts import CandidateHosts


class CapacityChecks:
    """Makes what checks the claims of a request. Any thread may use it."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        placement: PlacementClient,
        pending: PendingPlacements,
    ) -> None:
        """Set up.

        Args:
            pending: What was decided and is not yet reported by the hosts.
        """
        self._conf = conf
        self._placement = placement
        self._pending = pending

    def of(self, table: HostTable, request: SchedulingRequest) -> CapacityCheck | None:
        """Return what checks the claims of a request, or None. A scheduler without others checks too.

        Conductors claim alternates, and nova-schedulers may run at the same time: this process sees neither.
        """
        others = self._conf.berth.overlapping_claims
        if not others:
            return None
        read = partial(read_usage, self._placement, context=request.context)
        return OvercommitCheck(FreeAmounts(table, self._pending), read, others)


class ClaimSessions:
    """Opens the claim sessions of requests. Any thread may use it."""

    def __init__(
        self,
        claimer: Claimer,
        pending: PendingPlacements,
        candidate_hosts: CandidateHosts,
        checks: CapacityChecks,
        observer: MirrorAndOthers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up.

        Args:
            candidate_hosts: Tells which compute nodes a request must not go to.
        """
        self._claimer = claimer
        self._pending = pending
        self._candidate_hosts = candidate_hosts
        self._checks = checks
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
        return ClaimSession(
            self._claimer,
            self._pending,
            request,
            ComputeNodes(self.kept(table, request), table.row_of_uuid, partial(host_of_provider, table)),
            clock=self._clock,
            observer=self._observer,
            capacity=self._checks.of(table, request),
            check=check,
        )

    def kept(self, table: HostTable, request: SchedulingRequest) -> Kept:
        """Return what the instances of a request keep when their claims are released."""
        ignored = self._candidate_hosts.ignored_nodes(table, request)
        return Kept(ignored | request.kept_providers, frozenset(request.spec.ignore_hosts or ()))


def keep_until_answered(request: SchedulingRequest, claims: ClaimSession | None) -> None:
    """Let the outcome of the reply decide on the claims; without a message that is answered they are kept."""
    if claims is None:
        return
    if request.delivery is None:
        claims.confirm()
    else:
        request.delivery.hold(claims)


def host_of_provider(table: HostTable, provider: str) -> str:
    """Return the service host of a compute node, or the provider's UUID if the table has no such node."""
    row = table.row_of_uuid.get(provider)
    return provider if row is None else table.rows[row].host
