"""Everything about the hosts of all cells: the manager's entry point to nova's databases."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
import math
import time
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from scheduler.conf import derived
from scheduler.conf.partitions import own_partition
from scheduler.errors import ConfigError, HostsUnknown
from scheduler.hosts.aggregates import Aggregates
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.table import HostTable
from scheduler.nova_db import host_mappings
from scheduler.nova_db.api_reader import ApiReader
from scheduler.nova_db.cells import Cells
from scheduler.nova_db.change_tracking import CellTracker
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.host_mappings import HostMappings
from scheduler.nova_db.host_reader import HostReader
from scheduler.nova_db.host_store import HostStore
from scheduler.nova_db.instance_states import InstanceStates
from scheduler.nova_db.instances import CellInstances
from scheduler.nova_db.partition_hosts import PartitionHosts
from scheduler.nova_db.reported_placements import ReportedPlacements
from scheduler.nova_db.row_loader import RowLoader
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import OLDEST_SUPPORTED
from scheduler.numa.fit import Fitter
from scheduler.request.targets import NamedNode

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between two looks whether the API database answers, at start.
READY_INTERVAL = 0.5

#: Seconds that the table may be old in which a compute node is looked up by name, before it is read.
LOOKUP_MAX_AGE = 1.0


class HostInventory:
    """The hosts of all cells, for any thread; every wait is bounded.

    A database that is away is reported, and its content is missing: without the API database no cell is
    known, without a cell's database its hosts are missing. Reading goes on, so all comes back by itself.

    Attributes:
        clock: The clock of all moments here, and of the requests that are decided by them.
        engines: The engines of all databases.
        cells: The cells of the deployment.
        mappings: The cell of each host.
        api: Reads both from the API database, and the host aggregates.
        partition: The hosts among them that this scheduler serves.
        reader: Reads the cells.
        store: The table of all hosts.
        instances: Where instances are.
        states: Whether callers still wait for instances.
        pending: Placements that no compute has reported yet.
        mapped: Returns whether conductors find a chosen host. Nothing is read.
        members_of: Returns the uuids of all instances that were put in a group; none if they cannot be read.
        complete: Returns a table, or a newer one if it lacks a compute node among some providers.
        outside: Returns the table of the hosts of other partitions among some providers.
    """

    def __init__(self, conf: cfg.ConfigOpts, clock: Callable[[], float] = time.monotonic) -> None:
        """Set up all parts; nothing is connected to yet.

        Raises:
            ConfigError: Options cannot work.
        """
        derived.check_driver(conf)
        self._conf = conf
        self.clock = clock
        self.engines = Engines(conf, clock)
        self.engines.check()
        self.cells = Cells(self.engines, conf)
        self.mappings = HostMappings(self.engines, clock)
        self._calls = CellCalls(lambda: conf.berth.cell_timeout, clock)
        self.api = ApiReader(self.engines, self.cells, self.mappings, clock)
        self.partition = PartitionHosts(own_partition(conf), self.aggregates)
        self.reader = HostReader(
            self.cells,
            self._calls,
            partial(
                CellTracker,
                loader=RowLoader(conf, clock=clock),
                clock=clock,
                down_time=lambda: derived.service_down_time(conf),
            ),
            self.partition,
            unread_max_age=lambda: conf.berth.unread_cell_max_age,
            clock=clock,
        )
        self.store = HostStore(
            self.reader,
            self.partition,
            max_age=lambda: derived.host_state_max_age(conf),
            before_publishing=self._take_table,
            clock=clock,
        )
        self.instances = CellInstances(self.cells, self._calls)
        self.states = InstanceStates(self.engines, self.cells, self._calls)
        packing = conf.compute.packing_host_numa_cells_allocation_strategy
        self.pending = PendingPlacements(clock, fitter=Fitter(packing=packing))
        self._hosts_followed: Mapping[str, object] = {}
        self._reported = ReportedPlacements(self.pending, self.engines, self.instances)
        self.mapped = self.mappings.__contains__
        self.members_of = partial(host_mappings.members_of, self.engines)
        self.complete = self.store.complete
        self.outside = self.reader.outside

    def start(self) -> None:
        """Read cells and aggregates, as far as the database answers, and hosts in the background."""
        self.api.start()
        self.store.start()
        self._reported.loop.start()

    def wait_until_ready(self, timeout: float) -> bool:
        """Wait until cells and aggregates have been read from the API database once, and then the hosts.

        Without aggregates no host would be in the zone that a request names, and none would be isolated.

        Args:
            timeout: Seconds to wait for the API database; 0 looks once. Cells have as long as for a request.

        Returns:
            Whether they have been read.

        Raises:
            ConfigError: The database refuses access.
        """
        end = self.clock() + timeout
        # before it was read, hosts that were read are those of no cell
        max_age = None if self.api.was_read else 0.0
        while not self._is_ready():
            left = end - self.clock()
            if left <= 0:
                return False
            time.sleep(min(left, READY_INTERVAL))
        table = self.store.snapshot(max_age)
        LOG.info("Loaded cells: %d, compute nodes: %d", len(self.cells.all), len(table))
        if self.partition.name:
            LOG.info("Serving the compute nodes of partition %s only", self.partition.name)
        if not self._conf.workarounds.disable_compute_service_check_for_ffu:
            _warn_if_unsupported(self.reader.lowest_version)
        return True

    def _is_ready(self) -> bool:
        if self.api.was_read or self.api.read():
            return True
        refusal = self.engines.api_refusal
        if refusal:
            raise ConfigError(f"[api_database]/connection: {refusal}; check user, password and rights")
        return False

    def stop(self) -> None:
        """Stop reading, and close the connections."""
        self._reported.loop.stop()
        self.store.stop()
        self.api.loop.stop()
        self.engines.dispose()

    def reset(self) -> None:
        """Connect again and read the cells again, as on SIGHUP, while requests go on."""
        self.engines.dispose()
        self._calls.reset_breakers()
        self.store.clear_foreign_providers()
        self.api.read()

    # -- requests --------------------------------------------------------------------------------------------

    def begin_reading(self) -> None:
        """Begin to read the table that the next requests will want, while they wait for something else."""
        self.store.begin_reading(self._conf.berth.host_state_max_age or 0.0)

    def snapshot(
        self, max_age: float | None = None, cell_uuid: str | None = None, arrived_at: float | None = None
    ) -> HostTable:
        """Return the table of all hosts.

        Args:
            max_age: Seconds from the begin of its reading to the arrival of the request at most; None:
                [berth]/host_state_max_age.
            cell_uuid: A cell that the request names. If it was added since the start, it is read now.
            arrived_at: When the request arrived, in seconds of the clock; None: now.
        """
        if cell_uuid and not self.cells.knows(cell_uuid) and self.api.read():
            max_age, arrived_at = 0, None
        return self.store.snapshot(max_age, arrived_at)

    def recover(self, table: HostTable, cell_uuid: str | None = None) -> bool:
        """Read the cells whose hosts a table lacks once more, for a request that would find no host.

        Args:
            cell_uuid: The cell that the request names; others do not matter then.

        Returns:
            Whether a newer table has hosts that this one lacks; False if it lacks none.

        Raises:
            HostsUnknown: None of the cells can be read.
        """
        lacking = [
            cell
            for cell in self.cells.all
            if cell.uuid in table.unread_cells
            and (cell.enabled if cell_uuid is None else cell.uuid == cell_uuid)
        ]
        if not lacking:
            return False
        unread = self.reader.reread(lacking)
        if len(unread) == len(lacking):
            raise HostsUnknown(unread)
        self.store.snapshot(0)
        return True

    def nodes_of_hosts(self, table: HostTable, hosts: Collection[str]) -> frozenset[str]:
        """Return the uuids of the compute nodes of these service hosts, also of hosts outside the table.

        Those that are not are read from the databases; see ``HostTable.nodes_of_hosts``.
        """
        nodes = table.nodes_of_hosts(hosts)
        missing = {host for host in hosts if host.lower() not in table.hosts_in_lower_case}
        return nodes.union(self.instances.nodes_of_hosts(missing)) if missing else nodes

    def minimum_compute_version(self) -> int:
        """Return the lowest service version of any compute; 0 if none is known. Nothing is read."""
        return self.reader.lowest_version

    def cell_names(self) -> dict[str, str | None]:
        """Return the names of all cells by uuid."""
        return {cell.uuid: cell.name for cell in self.cells.all}

    def aggregates(self) -> Aggregates:
        """Return all aggregates as last known."""
        return self.api.aggregates

    def hosts_of_instances(self, instance_uuids: Sequence[str]) -> tuple[set[str], bool]:
        """Return service hosts on which instances are or will be, and whether all cells answered."""
        table = self.store.snapshot(math.inf)
        # Before the databases are read: a placement that ends in between is in them.
        expected = {self.pending.row_of(uuid, table) for uuid in instance_uuids}
        hosts, complete = self.instances.hosts_of_instances(instance_uuids)
        return hosts | {table.rows[row].host for row in expected if row is not None}, complete

    def find_nodes(self, wanted: Any) -> Sequence[NamedNode]:
        """Return the compute nodes that a request names (spec: placement-and-workflow 1.10).

        Args:
            wanted: Has ``host``, ``node`` and ``cell_uuid``; any may be None.

        Raises:
            HostsUnknown: They may be in cells that cannot be read.
        """
        # An unknown node may have just been created, or moved to another cell.
        for max_age in (LOOKUP_MAX_AGE, 0):
            cell_uuid = wanted.cell_uuid or (
                wanted.host and self.mappings.cell_of(wanted.host, fresh=max_age == 0)
            )
            table = self.snapshot(max_age, cell_uuid)
            rows = table.nodes(wanted.host, wanted.node, cell_uuid)
            if rows:
                first = rows[0].cell_uuid
                return [NamedNode(row.uuid, row.host, row.nodename) for row in rows if row.cell_uuid == first]
        return self.find_nodes(wanted) if self.recover(table, cell_uuid or None) else ()

    def _take_table(self, table: HostTable) -> None:
        if table.rows_named is not self._hosts_followed:  # most tables have the same hosts as the one before
            self._hosts_followed = table.rows_named
            if self.mappings.follow(table.rows_named):
                self.api.loop.wake()
        self.pending.builds.follow(table)
        self._reported.settle(table)


def _warn_if_unsupported(version: int) -> None:
    if 0 < version < OLDEST_SUPPORTED:
        LOG.warning(
            "The oldest nova-compute has service version %d; releases before nova 27 (version %d) are not"
            " supported",
            version,
            OLDEST_SUPPORTED,
        )
