"""Schedulers made of the product's own code, with Placement, broker and databases replaced by the models.

Imported after ``imports.install``, so that the product has the virtual clock, threads and randomness.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
import functools
from functools import partial
import logging
import math
import re
import tempfile
from types import SimpleNamespace
from typing import Any

from oslo_config import cfg
from oslo_messaging import transport as library_transport
from oslo_messaging._drivers import impl_rabbit
from sqlalchemy.exc import OperationalError

from scheduler import conf as options
from scheduler import objects
from scheduler.bounds import outages
from scheduler.conf.partitions import Partition
from scheduler.daemon import service
from scheduler.daemon.service import Periodic, ServiceParts
from scheduler.hosts.aggregates import Aggregates
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.rows import HostRow, ServiceRow
from scheduler.hosts.table import HostTable
from scheduler.manager import SchedulerManager
from scheduler.nova_db.partition_hosts import PartitionHosts
from scheduler.nova_db.scatter_gather import CellUnavailable
from scheduler.nova_service.first_scheduler import SWEEP_INTERVAL
from scheduler.parts import Outside, no_stream, put_together
from scheduler.placement.client import PlacementClient
from scheduler.placement.session import Timeouts
from scheduler.request.instance_state import InstanceState
from scheduler.rpc import consumer, keepalive, notifications, scheduler_endpoint, serializer
from scheduler.rpc.server import MOST_RUNS
from scheduler.stream.decision_stream import DecisionStream
from scheduler.stream.shared_decisions import LocalState
from tools.simulation import amqp, stream, threads
from tools.simulation.broker import Broker
from tools.simulation.plan import POLICIES, Limits

CELL = "c0000000-0000-4000-8000-000000000001"
FLAVOR = {"memory_mb": 512, "vcpus": 1, "root_gb": 1, "ephemeral_gb": 0, "swap": 0}
# What a database driver says when its connection ends.
BROKEN = "server closed the connection"

AMOUNTS = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}

CONF = """
[DEFAULT]
host = berth
[oslo_messaging_rabbit]
heartbeat_timeout_threshold = 0
[placement]
auth_type = none
endpoint_override = http://placement
[api_database]
connection = sqlite://
[database]
connection = sqlite://
[filter_scheduler]
enabled_filters = ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter
shuffle_best_same_weighed_hosts = true
weight_classes = scheduler.weights.amounts.RAMWeigher
"""


def host_uuid(number: int) -> str:
    """Return the uuid of a compute node."""
    return f"a0000000-0000-4000-8000-{number:012d}"


def instance_uuid(number: int) -> str:
    """Return the uuid of an instance."""
    return f"10000000-0000-4000-8000-{number:012d}"


def outside_uuid(event: int, number: int) -> str:
    """Return the uuid of an instance that others claim for."""
    return f"20000000-0000-4000-8000-{event:08d}{number:04d}"


_HOST = re.compile(r"a0000000-0000-4000-8000-0*(\d+)")
_INSTANCE = re.compile(r"10000000-0000-4000-8000-0*(\d+)")


def with_names(text: str) -> str:
    """Return a text with short names in place of these uuids."""
    return _INSTANCE.sub(r"i\1", _HOST.sub(r"h\1", text))


class NoMonitor:
    """In the place of what watches a process, which is a model: it needs none."""

    def serving(self) -> None:
        """Do nothing."""

    def stopping(self, limit: float) -> None:
        """Do nothing: the model ends what does not stop."""

    def begin_reload(self) -> None:
        """Do nothing."""

    def end_reload(self, *, accepted: bool) -> None:
        """Do nothing."""


class Hosts:
    """Has what the manager asks of ``nova_db.inventory.HostInventory``, over a table in memory.

    Args:
        whole: All hosts.
        database: Returns how the databases are now: one of ``plan.DATABASES``, or "".
        states_of: Returns what nova says of instances.
        on_their_way: Returns those instances that nova has on a host, or on their way there.
        places: Returns the nodes of the members of a server group, by its number; "" for none.
        share: The number of the partition, and how many there are; None: there are none.
    """

    instances: Any = None
    engines: Any = None

    def __init__(
        self,
        whole: HostTable,
        database: Callable[[], str],
        states_of: Callable[..., dict[str, InstanceState]],
        on_their_way: Callable[[Mapping[str, str]], set[str]],
        places: Callable[[int], Mapping[str, str]],
        share: tuple[int, int] | None = None,
    ) -> None:
        self._whole = whole
        self._places = places
        self._table = whole if share is None else _part(whole, share)
        self._database = database
        self.clock = threads.MODULES["time"].monotonic
        self.states = SimpleNamespace(of=states_of, on_their_way=on_their_way)
        self.reader = SimpleNamespace(cell_readings=list)
        self.instances = self
        self.pending = PendingPlacements()
        self._aggregates = Aggregates(())
        # By its cells alone: Placement has no aggregates here.
        partition = None if share is None else Partition(f"part{share[0]}", "", cells=(CELL,))
        self.partition = PartitionHosts(partition, self.aggregates)

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def reset(self) -> None:
        """Do nothing."""

    def begin_reading(self) -> None:
        """Do nothing: the table is in memory."""

    def wait_until_ready(self, timeout: float) -> bool:
        """Return that the databases were read."""
        return True

    def aggregates(self) -> Aggregates:
        """Return that there are none."""
        return self._aggregates

    def snapshot(
        self, max_age: float | None = None, cell_uuid: str | None = None, arrived_at: float | None = None
    ) -> HostTable:
        """Return the table, or one without hosts. One of any age is in memory."""
        if max_age == math.inf:
            return self._table
        return NO_HOSTS if self._read() == "empty" else self._table

    def complete(self, table: HostTable, uuids: Iterable[str]) -> HostTable:
        """Return the table: it has all hosts of the partition."""
        return table

    def outside(self, uuids: Collection[str]) -> HostTable:
        """Return the hosts of other partitions among some providers."""
        self._read()
        return _with_rows(self._whole, [row for row in self._whole.rows if row.uuid in uuids])

    def nodes_of_hosts(self, table: HostTable, hosts: Sequence[str]) -> frozenset[str]:
        """Return the nodes of these hosts."""
        return self._whole.nodes_of_hosts(hosts)

    def recover(self, table: HostTable, cell_uuid: str | None = None) -> bool:
        """Return that the table lacks no host."""
        return False

    def locate(self, uuids: Iterable[str]) -> Mapping[str, list[tuple[str, str]]]:
        """Return where members of server groups are: no other instance is asked for."""
        wanted, readable = set(uuids), self._database() not in {"away", "broken"}
        nodes = {uuid: node for group in POLICIES for uuid, node in self._places(group).items()}
        found = {uuid: [(CELL, with_names(nodes[uuid]))] for uuid in wanted & nodes.keys() if nodes[uuid]}
        return found if readable else {}

    def members_of(self, group: str) -> Collection[str]:
        """Return all members of a server group; none if the database cannot be read."""
        return () if self._database() in {"away", "broken"} else list(self._places(int(group[-12:])))

    def hosts_of_instances(self, uuids: Sequence[str]) -> tuple[set[str], bool]:
        """Return the hosts of instances, with those that are chosen for them, and whether that is all."""
        expected = {self.pending.row_of(uuid, self._table) for uuid in uuids}
        hosts = {host for places in self.locate(uuids).values() for _, host in places}
        hosts |= {self._table.rows[row].host for row in expected if row is not None}
        return hosts, self._database() not in {"away", "broken"}

    def cell_names(self) -> dict[str, str | None]:
        """Return no names: log lines have the uuids of cells."""
        return {}

    def minimum_compute_version(self) -> int:
        """Return the version of a current release."""
        return 74

    def mapped(self, host: str) -> bool:
        """Return whether conductors know the host, as was read in the background: it never waits or fails."""
        return self._database() != "unmapped"

    def _read(self) -> str:
        how = self._database()
        if how == "slow":
            threads.sleep(3.0 * threads.MODULES["random"].random())
        elif how == "away":
            raise CellUnavailable("the cell does not answer")
        elif how == "broken":
            raise OperationalError("SELECT 1", {}, ConnectionError(BROKEN))
        return how


NO_HOSTS = HostTable((), {}, Aggregates(()))


def _with_rows(whole: HostTable, rows: Sequence[HostRow]) -> HostTable:
    services = {(row.cell_uuid, row.host): whole.services[whole.row_of_uuid[row.uuid]] for row in rows}
    return HostTable(rows, services, Aggregates(()))


@functools.cache
def _part(whole: HostTable, share: tuple[int, int]) -> HostTable:
    number, of = share
    return _with_rows(whole, whole.rows[number::of])


@functools.cache
def make_table(number: int, vcpus: int) -> HostTable:
    """Return a table of equal hosts."""
    rows = [
        HostRow(
            id=n,
            uuid=host_uuid(n),
            cell_uuid=CELL,
            host=f"h{n}",
            nodename=f"h{n}",
            free_ram_mb=512 * vcpus,
            total_usable_ram_mb=512 * vcpus,
            free_disk_mb=1024 * vcpus,
            total_usable_disk_gb=vcpus,
            vcpus_total=vcpus,
        )
        for n in range(number)
    ]
    services = {(CELL, row.host): ServiceRow(id=row.id, uuid=None, host=row.host) for row in rows}
    return HostTable(rows, services, Aggregates(()))


@functools.cache
def make_conf() -> cfg.ConfigOpts:
    """Return the options; ``apply`` sets those that histories draw."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(CONF)
        file.flush()
        conf = options.load(["--config-file", file.name])
    logging.getLogger().handlers.clear()
    return conf


def apply(limits: Limits) -> cfg.ConfigOpts:
    """Set the options and constants that a history has drawn."""
    conf = make_conf()
    values = {
        (None, "rpc_response_timeout"): limits.response_timeout,
        (None, "long_rpc_timeout"): limits.long_timeout,
        (None, "manager_shutdown_timeout"): limits.shutdown_timeout,
        (None, "graceful_shutdown_timeout"): limits.alarm,
        ("filter_scheduler", "host_subset_size"): limits.subset,
        ("berth", "overlapping_claims"): limits.others,
    }
    for (group, name), value in values.items():
        conf.set_override(name, value, group)
    return conf


def prepare_libraries() -> None:
    """Replace what would reach out of the simulation; once for an operating system process."""
    amqp.install()
    # Half of all steps of a history would be looks at whether something has happened.
    consumer.LONGEST_WAIT = keepalive.TICK = 1.0
    outages.IDLE_INTERVAL = 60.0
    stream.spare_steps()
    stop_consumer = consumer.Consumer.stop

    def stop(stopped: Any) -> None:
        Broker.active.wake_consumers()
        stop_consumer(stopped)

    consumer.Consumer.stop = stop
    service.spare_the_collector = lambda: None


class Parts:
    """Makes the parts of schedulers.

    Args:
        conf: The options.
        limits: What the history has drawn.
        broker: The model of the broker.
        adapter: Makes a connection to Placement.
        database: Returns how the databases are now.
        instance: Returns an instance by its uuid (``tools.simulation.callers.Instance``).
        buried: Returns the builds that were given up after some seconds of the clock, with the seconds.
        places: Returns the nodes of the members of a server group, by its number; "" for none.

    Attributes:
        share: The number of its partition, and how many there are; None: there are none.
        make_stream: Makes the stream of decisions for the process of a number; None: none are shared.
        leads: Whether this scheduler is the first one of those that are up.
    """

    share: tuple[int, int] | None = None
    make_stream: Callable[[int, LocalState], DecisionStream] | None = None
    leads: Callable[[], bool] = staticmethod(lambda: True)

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        limits: Limits,
        broker: Broker,
        adapter: Any,
        database: Callable[[], str],
        instance: Callable[[str], Any],
        buried: Callable[[float], list[tuple[float, str]]],
        places: Callable[[int], Mapping[str, str]],
    ) -> None:
        self._conf = conf
        self._limits = limits
        self._broker = broker
        self._adapter = adapter
        self._database = database
        self._instance = instance
        self._buried = buried
        self._places = places

    def _make_periodics(self, _conf: cfg.ConfigOpts, manager: SchedulerManager) -> Iterator[Periodic]:
        last = -math.inf

        def sweep() -> None:
            nonlocal last
            if not self.leads():
                last = -math.inf
            elif self._database() not in {"away", "broken"}:
                found = self._buried(last)
                last = max((at for at, _uuid in found), default=last)
                manager.parts.claims.doubts.note_given_up(uuid for _at, uuid in found)

        yield Periodic("sweep", sweep, SWEEP_INTERVAL, SWEEP_INTERVAL * threads.MODULES["random"].random())

    def _states_of(self, uuids: Collection[str], _ignored: Collection[str] = ()) -> dict[str, InstanceState]:
        how = self._database()
        if how == "slow":
            threads.sleep(3.0 * threads.MODULES["random"].random())
        elif how in {"away", "broken"}:
            return dict.fromkeys(uuids, InstanceState.UNKNOWN)
        return {uuid: self._instance(uuid).state for uuid in uuids}

    def _come_to(self, hosts: Mapping[str, str]) -> set[str]:
        if self._database() in {"away", "broken"}:
            return set(hosts)
        nodes = {uuid: self._instance(uuid).host for uuid in hosts}
        return {uuid for uuid, host in hosts.items() if nodes[uuid] and with_names(nodes[uuid]) == host}

    def make_service(self, number: int) -> service.Service:
        """Return a service that is not started: the process of a number on this host."""
        parts = ServiceParts(partial(self._make_manager, number), self._make_server, self._make_periodics)
        return service.Service(self._conf, [], parts, NoMonitor(), lambda _conf: None)

    def _make_manager(self, number: int, conf: cfg.ConfigOpts) -> SchedulerManager:
        timeouts = Timeouts.of(self._limits.placement_timeout or None)
        client = PlacementClient(self._adapter(), timeouts)
        table = make_table(self._limits.hosts, self._limits.room)
        hosts = Hosts(table, self._database, self._states_of, self._come_to, self._places, self.share)
        made = self.make_stream
        shared = no_stream if made is None else lambda _conf, state: made(number, state)
        parts = put_together(conf, Outside(hosts, client, None), shared)
        parts.claims.batch_size = self._limits.batch
        return SchedulerManager(conf, notifications.Notifications(()), parts)

    def _make_server(self, conf: cfg.ConfigOpts, manager: Any) -> Any:
        conf.set_override("executor_thread_pool_size", self._limits.threads)
        url = library_transport.TransportURL.parse(conf, "rabbit://berth@broker/")
        transport = library_transport.RPCTransport(impl_rabbit.RabbitDriver(conf, url, "nova"))
        conf.set_override("rabbit_quorum_queue", self._limits.quorum, "oslo_messaging_rabbit")
        made = scheduler_endpoint.build(conf, transport, manager)
        made.outages = manager.outages
        made.serve = self._timed(made.serve)
        return made

    def _timed(self, serve: Callable[..., None]) -> Callable[..., None]:
        """Note which process serves a call, and for how long."""

        def timed(call: Any, event: Any = None) -> None:
            message, runtime = self._broker.messages[call.frame.msg_id], self._broker.runtime
            process, begun = runtime.current.process, runtime.clock
            message.working[process] = begun
            message.runs.append(process)
            message.is_poison |= call.runs >= MOST_RUNS
            try:
                serve(call, event)
            finally:
                message.working.pop(process, None)
                message.waits.append(runtime.clock - begun)

        return timed


@functools.cache
def _spec(number: int, ignored: str, group: int, places: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    flavor = objects.Flavor(**FLAVOR, extra_specs={})
    spec = objects.RequestSpec(
        flavor=flavor,
        project_id="project",
        user_id="user",
        num_instances=number,
        ignore_hosts=[ignored] if ignored else None,
        **({"instance_group": _group(group, dict(places))} if group else {}),
    )
    return serializer.ObjectSerializer().serialize_entity(None, spec)


def _group(number: int, places: Mapping[str, str]) -> objects.InstanceGroup:
    policy, most = POLICIES[number]
    return objects.InstanceGroup(
        uuid=f"30000000-0000-4000-8000-{number:012d}",
        name=f"group {number}",
        policy=policy,
        policies=[policy],
        _rules={"max_server_per_host": str(most)} if most else {},
        members=list(places),
        hosts=sorted({with_names(node) for node in places.values() if node}),
    )


def request(
    instances: Sequence[int], ignored: str = "", group: int = 0, places: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the body of a call for some instances.

    Args:
        ignored: The host that an evacuation leaves.
        group: The number of their server group; 0 for none.
        places: The nodes of its members, as the conductor has read them; "" for none.
    """
    uuids = [instance_uuid(number) for number in instances]
    arguments = {
        "spec_obj": _spec(len(uuids), ignored, group, tuple((places or {}).items())),
        "instance_uuids": uuids,
        "return_objects": True,
        "return_alternates": True,
    }
    return {"method": "select_destinations", "version": "4.5", "args": arguments}


def chosen(result: Any) -> list[str]:
    """Return the compute node of each instance out of the result of a call."""
    return [row[0]["nova_object.data"]["compute_node_uuid"] for row in result]
