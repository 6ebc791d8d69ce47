"""Which hosts a request is decided among: what Placement offers, as they are in the host table."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
import math
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from scheduler.claims.doubts import NOTHING_KEPT, Kept
from scheduler.errors import NoValidHost
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import CandidateLists, HostView
from scheduler.logs import RateLimitedLogger
from scheduler.nova_db.inventory import HostInventory
from scheduler.placement.answer import Candidates
from scheduler.placement.candidates import CandidateSource
from scheduler.placement.errors import PlacementError, unavailable
from scheduler.request import prefilters, query, targets
from scheduler.request.network import NeutronNetwork
from scheduler.request.reading import read
from scheduler.request.scheduling_request import SchedulingRequest

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between two equal warnings of pre-filters of what holds for every request.
PREFILTER_WARNING_INTERVAL = 3600.0

#: Offered hosts without a compute service that the notes of a decision name.
NOTED = 5


class CandidateHosts:
    """Asks for the hosts of requests. Any thread may use it."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        hosts: HostInventory,
        candidates: CandidateSource,
        network: NeutronNetwork,
        provider_aggregates: Callable[[Any, str], Collection[str]],
    ) -> None:
        """Set up; nothing is read yet.

        Args:
            candidates: Answers which hosts could take a request.
            provider_aggregates: Placement's aggregates, for the pre-filters.
        """
        self._conf = conf
        self._hosts = hosts
        self._candidates = candidates
        self._prefilter_services = prefilters.PrefilterServices(
            conf=conf,
            aggregates=hosts.aggregates,
            minimum_compute_version=hosts.minimum_compute_version,
            network=network,
            provider_aggregates=provider_aggregates,
            warnings=RateLimitedLogger(LOG, interval=PREFILTER_WARNING_INTERVAL),
        )
        self._repeated = RateLimitedLogger(LOG)

    def queries(self, request: SchedulingRequest) -> tuple[query.Query, ...]:
        """Run the pre-filters and return the queries for Placement.

        Raises:
            PlacementUnavailable: A pre-filter needs Placement, which gives no usable answer.
        """
        spec = request.spec
        try:
            prefilters.run(spec, request.context, self._prefilter_services)
        except PlacementError as error:
            raise unavailable(error) from error
        self._note_unknown_zone(request)
        named = targets.named_target(spec)
        found = self._hosts.find_nodes(named) if named else ()
        where = targets.apply_lookup(spec, named, found)
        return query.build(spec, self._conf, replace(where, aggregates=self._partition_aggregates()))

    def _note_unknown_zone(self, request: SchedulingRequest) -> None:
        """Say that the zone restricts nothing if no aggregate is that zone, as with nova."""
        zone = read(request.spec, "availability_zone")
        if not zone:
            return
        zones = {aggregate.availability_zone for aggregate in self._hosts.aggregates()} - {None}
        if zone not in zones and (zones or zone != self._conf.default_availability_zone):
            note = f"No aggregate is availability zone {zone}: hosts of any zone may be chosen"
            request.notes.append(note)
            self._repeated.info(zone, "%s", note)

    def ask_placement(self, request: SchedulingRequest) -> Candidates:
        """Return the allocation candidates."""
        return self._candidates.fetch(request.queries, request.context)

    def table(self, request: SchedulingRequest, max_age: float | None = None) -> HostTable:
        """Return a snapshot of the hosts, read after the request arrived if it moves an instance.

        What an operator or a compute changed just before a move (a service forced down, for one) counts then.

        Args:
            max_age: Seconds from its reading to the arrival of the request at most; None: the option.
        """
        max_age = 0.0 if request.moves_instance else max_age
        return self._hosts.snapshot(max_age, request.cell_uuid, request.arrived_at)

    def table_with(
        self, node_uuids: Iterable[str], request: SchedulingRequest, max_age: float | None = None
    ) -> HostTable:
        """Return a snapshot of the hosts in which none of these compute nodes is missing, if they exist."""
        return self._hosts.complete(self.table(request, max_age), node_uuids)

    def offered(
        self, candidates: Candidates, request: SchedulingRequest, max_age: float | None = None
    ) -> HostView:
        """Return the hosts that Placement offers.

        Args:
            max_age: Seconds from the reading of the hosts to the arrival of the request at most; None: the
                option, or 0 if it is not set: they are read while Placement is asked, which costs no time.
        """
        if max_age is None:
            max_age = self._conf.berth.host_state_max_age or 0.0
        table = self.table_with(candidates.by_root, request, max_age)
        lost = [row for uuid, row in table.without_service.items() if uuid in candidates.by_root]
        notes = [
            f"Host {row.host} has no compute service record and gets no instances" for row in lost[:NOTED]
        ]
        request.notes.extend(note for note in notes if note not in request.notes)
        rows = table.find(candidates.by_root, request.cell_uuid)
        by_root = candidates.by_root
        lists = CandidateLists(lambda position: by_root[table.rows[rows[position]].uuid])
        pending, asked_at = self._hosts.pending, candidates.sent_at
        return HostView.of(table, rows, lists, self._hosts.instances, pending, asked_at)

    def recover(self, candidates: Candidates, hosts: HostView, request: SchedulingRequest) -> bool:
        """Read cells again that could not be read, if Placement offers hosts that may be in them.

        Returns:
            Whether a cell can be read again, so that there are other hosts now.
        """
        table = hosts.table
        lacks = any(uuid not in table.row_of_uuid for uuid in candidates.by_root)
        return lacks and self._hosts.recover(table, request.cell_uuid)

    def recount(self, hosts: HostView, request: SchedulingRequest) -> bool:
        """Count NUMA cells and devices only for instances that nova still has on their way to these hosts.

        For a request that finds no host: an instance whose build has failed must not block any. Neither does
        what an earlier run of the request has chosen for its instances.

        Returns:
            Whether hosts have more of either now.
        """
        rows = {
            uuid: hosts.row(position)
            for position, demands in hosts.reservations.demands.items()
            for uuid in demands
        }
        if not rows or not (request.guest or request.pci_requests):
            return False
        expected = self._hosts.states.on_their_way({uuid: row.host for uuid, row in rows.items()})
        left = rows.keys() - expected | rows.keys() & set(request.instance_uuids)
        freed = self._hosts.pending.demands.forget({uuid: rows[uuid].uuid for uuid in left})
        if freed:
            LOG.info(
                "NUMA cells and PCI devices of %d pending placements are not counted any more; "
                "choosing again for instance %s",
                freed,
                request.progress.instance_uuid,
            )
        return bool(freed)

    def to_check(self, request: SchedulingRequest) -> HostView:
        """Return the host that a rebuild check forces, or all of its cell."""
        cell_uuid = request.cell_uuid
        table = self._hosts.snapshot(cell_uuid=cell_uuid, arrived_at=request.arrived_at)
        target = targets.named_target(request.spec)
        nodes = table.nodes(target.host, target.node, cell_uuid) if target else table.rows
        rows = table.find((row.uuid for row in nodes), cell_uuid)
        if not len(rows) and self._hosts.recover(table, cell_uuid):
            return self.to_check(request)
        return HostView.of(table, rows, None, self._hosts.instances, self._hosts.pending)

    def ignored_nodes(self, table: HostTable, request: SchedulingRequest) -> frozenset[str]:
        """Return the compute nodes that a request must not go to. An evacuation names its failed host so."""
        return self._hosts.nodes_of_hosts(table, request.spec.ignore_hosts or ())

    def kept(self, request: SchedulingRequest, table: HostTable | None = None) -> Kept:
        """Return what the instances of a request keep when their claims are released."""
        if not (request.spec.ignore_hosts or request.kept_providers):
            return NOTHING_KEPT
        ignored = self.ignored_nodes(self._hosts.snapshot(math.inf) if table is None else table, request)
        return Kept(ignored | request.kept_providers, frozenset(request.spec.ignore_hosts or ()))

    def _partition_aggregates(self) -> frozenset[str]:
        """Return the aggregates that the hosts of this scheduler's partition are in; none if it has none.

        Raises:
            NoValidHost: None of its aggregates exists, so it has no host.
        """
        partition = self._hosts.partition
        uuids = partition.aggregates()
        if uuids is None:
            return frozenset()
        if not uuids:
            raise NoValidHost(f"None of the aggregates of partition {partition.name} exists")
        return uuids
