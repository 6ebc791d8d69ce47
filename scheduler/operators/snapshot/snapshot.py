"""A cloud at one moment, read from nova's databases and from Placement. Nothing is written."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
import copy
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
import time
from typing import Any, TypeVar

import numpy as np
from oslo_config import cfg

from scheduler import objects
from scheduler.conf import service_down_time
from scheduler.errors import BerthError
from scheduler.filters.compute_filter import ServiceUp
from scheduler.hosts.aggregates import AggregateSet
from scheduler.hosts.coordinates import TableRows
from scheduler.hosts.request_instances import HostKey
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.logs import brief
from scheduler.nova_db.cells import UNREADABLE
from scheduler.nova_db.inventory import HostInventory
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.operators.snapshot import as_nova_api
from scheduler.operators.snapshot.request_specs import (
    MISSING,
    RequestSpecs,
    StoredRequest,
    StoredRequests,
    instance_pages,
)
from scheduler.parts import Outside, no_stream, put_together
from scheduler.placement.candidates import CandidateSource
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementError
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.rules import nova_modules
from scheduler.workflow.candidate_hosts import CandidateHosts

#: (what is read, how much is done, of how much)
ShowProgress = Callable[[str, int, int], None]

Name = TypeVar("Name", str, tuple[str, str])

#: Seconds that a page of instances may take.
PAGE_TIMEOUT = 60.0

#: Why a cell that cannot be read is too many.
ALL_CELLS = "A plan needs all of them"

#: Hosts and groups count instances in this state, but nova moves none of them.
SOFT_DELETED = "soft-delete"


class CloudUnreadable(BerthError):
    """No plan can be made: a database or Placement does not answer."""


@dataclass
class Instances:
    """All instances that are on a host, by index.

    Attributes:
        states: ``vm_state`` of each.
        tasks: ``task_state`` of each; "" for none.
        names: The display name of each; "" for none.
        projects: The id of the project of each.
        rows: The row of the table of each one's node, -1 for a node that the table lacks; int32.
        visible: Whether it counts as a member of a server group: not soft-deleted, nor hidden; bool.
        specs: The number of each one's request among the distinct ones, or ``UNREAD`` or ``MISSING``; int32.
        group_of: The UUID of the server group of those that have one.
    """

    uuids: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    projects: list[str] = field(default_factory=list)
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    visible: np.ndarray = field(default_factory=lambda: np.empty(0, bool))
    specs: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    index_of: dict[str, int] = field(default_factory=dict)
    group_of: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.uuids)

    def on(self, rows: Iterable[int]) -> np.ndarray:
        """Return the indices of the instances on some rows of the table; int64."""
        order, ordered = self._by_row
        wanted = sorted(rows)
        firsts, lasts = (np.searchsorted(ordered, wanted, side).tolist() for side in ("left", "right"))
        found = [order[first:last] for first, last in zip(firsts, lasts, strict=True)]
        return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)

    @cached_property
    def _by_row(self) -> tuple[np.ndarray, np.ndarray]:
        """The indices in the order of their rows, and these rows."""
        order = np.argsort(self.rows, kind="stable")
        return order, self.rows[order]


#: In place of the number of a request that was not read yet.
UNREAD = -1


@dataclass
class Snapshot:
    """A cloud at one moment. Requests of instances are read when a plan needs them.

    Attributes:
        mirror: What Placement has of compute nodes.
        candidates: Queries Placement where the mirror has no answer.
        placement: Its client, for what explains that there is no host.
        hosts: The databases; changes are not followed.
        requests: The distinct requests that were read.
        groups: Server groups by UUID, with their members.
        read_at: When the heartbeats of services were read, in seconds since the epoch.
        progress: Called while a plan is made.
        is_whole: Whether it has all hosts, and their instances. Of one host the databases know the instances.
    """

    conf: cfg.ConfigOpts
    table: HostTable
    mirror: CandidateMirror
    candidates: CandidateSource
    placement: PlacementClient
    candidate_hosts: CandidateHosts
    hosts: HostInventory
    stored: RequestSpecs
    instances: Instances = field(default_factory=Instances)
    requests: StoredRequests = field(default_factory=StoredRequests)
    groups: dict[str, objects.InstanceGroup] = field(default_factory=dict)
    read_at: float = field(default_factory=time.time)
    progress: ShowProgress = lambda *_: None
    is_whole: bool = True

    def __post_init__(self) -> None:
        self._seen = self.table.numbers["service_seen"]

    def keep_time(self) -> None:
        """Keep heartbeats as old as when they were read: a plan may take longer than service_down_time."""
        self.table.numbers["service_seen"] = self._seen + (time.time() - self.read_at)

    @cached_property
    def is_down(self) -> np.ndarray:
        """Which hosts have a compute service that is down; bool, shape (hosts,)."""
        self.keep_time()
        hosts = HostView.of(self.table, TableRows(np.arange(len(self.table))))
        return ~ServiceUp(service_down_time(self.conf), time.time()).up(hosts)

    def load_requests(self, indices: Iterable[int]) -> None:
        """Read the requests of some instances, and their server groups."""
        instances = self.instances
        wanted = [index for index in indices if instances.specs[index] == UNREAD]
        instances.specs[wanted] = MISSING
        with _readable("The API database"):
            uuids = (instances.uuids[index] for index in wanted)
            for done, (uuid, text) in enumerate(self.stored.texts(uuids)):
                number, group = self.requests.add(uuid, text)
                index = instances.index_of[uuid]
                instances.specs[index] = number
                if group is not None:
                    instances.group_of[uuid] = group
                if not done % 1000:
                    self.progress("requests", done, len(wanted))
            missing = {instances.group_of[instances.uuids[index]] for index in wanted
                       if instances.uuids[index] in instances.group_of} - self.groups.keys()  # fmt: skip
            self.groups |= self.stored.groups(sorted(missing))

    def stored_request(self, index: int) -> StoredRequest | None:
        """Return the loaded request of an instance; None if it cannot be read."""
        number = self.instances.specs[index]
        return None if number < 0 else self.requests[number]

    def flavor(self, index: int) -> Any:
        """Return the flavor of an instance; None if its request cannot be read."""
        stored = self.stored_request(index)
        return stored and stored.flavor

    def request(self, index: int) -> objects.RequestSpec:
        """Return a copy of the loaded request of an instance, in its server group."""
        uuid = self.instances.uuids[index]
        spec: Any = self.requests[self.instances.specs[index]].spec()
        spec.instance_uuid, spec.num_instances = uuid, 1
        group = self.groups.get(self.instances.group_of.get(uuid, ""))
        spec.instance_group = None if group is None else group.obj_clone()
        if self.conf.filter_scheduler.pci_in_placement:
            spec.requested_resources = as_nova_api.request_groups(spec.pci_requests)
        return spec

    def place(self, row: int) -> HostKey:
        found = self.table.rows[row]
        return found.cell_uuid, found.host

    def cell_names(self) -> Mapping[str, str]:
        """Return the names of the cells by UUID; of a cell without a name the UUID."""
        return {uuid: name or uuid for uuid, name in self.hosts.cell_names().items()}

    def aggregates(self, row: int) -> AggregateSet:
        return self.table.coded["aggregates"][row]

    def zone(self, row: int) -> str:
        return self.aggregates(row).availability_zone(self.conf.default_availability_zone)

    def rows_by(self, names_of: Callable[[int], Iterable[Name]]) -> dict[Name, list[int]]:
        """Return the rows of the table by the names that each has, in order of name."""
        found: dict[Name, list[int]] = {}
        for row in range(len(self.table)):
            for name in names_of(row):
                found.setdefault(name, []).append(row)
        return dict(sorted(found.items()))


@contextmanager
def read(
    conf: cfg.ConfigOpts, progress: ShowProgress = lambda *_: None, host: str | None = None
) -> Iterator[Snapshot]:
    """Read a cloud, whose databases can be read until the context ends.

    Args:
        host: The only host that matters: a service host, a node name or the UUID of a node. Its instances are
            looked up where they are needed, and there may be no such host. None: the whole cloud.

    Raises:
        CloudUnreadable: A database or Placement does not answer.
        BerthError: The options cannot work.
    """
    nova_modules.provide(conf)
    outside = Outside.from_conf(conf)
    try:
        yield _read(conf, outside, progress, host)
    finally:
        outside.hosts.engines.dispose()


def _read(
    conf: cfg.ConfigOpts, outside: Outside, progress: ShowProgress, host: str | None = None
) -> Snapshot:
    hosts = outside.hosts
    progress("hosts", 0, 1)
    hosts.start()
    try:
        if not hosts.wait_until_ready(0.0):
            raise CloudUnreadable("The API database cannot be read")
        table, read_at = copy.copy(hosts.snapshot(0)), time.time()
        hosts.api.read()  # the loop that reads them may not have run yet
    finally:
        hosts.stop()
    if host is not None:
        table = table.only(host)
    if table.unread_cells and not (host and len(table)):
        names = hosts.cell_names()
        unread = ", ".join(names.get(uuid) or uuid for uuid in sorted(table.unread_cells))
        needed = "It may be there" if host else ALL_CELLS
        raise CloudUnreadable(f"Cells that cannot be read: {unread}. {needed}")
    if not len(table) and host is None:
        raise CloudUnreadable("There is no compute node in any cell")
    # copies: a plan changes them
    table.numbers = {name: column.copy() for name, column in table.numbers.items()}
    table.coded = dict(table.coded)
    progress("Placement", 0, 1)
    ticks = count()
    # Nothing expires in a plan, and each read of the clock is later than the one before.
    hosts.clock = lambda: next(ticks) * 1e-9
    parts = put_together(conf, outside, make_stream=no_stream)
    parts.placement.start()
    with _readable("Placement"):
        parts.mirror.read(None if host is None else [row.uuid for row in table.rows])
    snapshot = Snapshot(
        conf=conf,
        table=table,
        mirror=parts.mirror,
        candidates=parts.candidates,
        placement=parts.placement,
        candidate_hosts=parts.candidate_hosts,
        hosts=hosts,
        stored=RequestSpecs(hosts.engines),
        read_at=read_at,
        progress=progress,
        is_whole=host is None,
    )
    if snapshot.is_whole:
        with _readable("A cell's database"):
            snapshot.instances = _read_instances(snapshot)
    return snapshot


def _read_instances(snapshot: Snapshot) -> Instances:
    found, rows, visible = Instances(), list[int](), list[bool]()
    row_of = {
        (row.cell_uuid, row.host, row.nodename): number for number, row in enumerate(snapshot.table.rows)
    }
    states: dict[str, str] = {}
    total = int(snapshot.table.numbers["num_instances"].sum())
    calls = CellCalls(lambda: max(snapshot.conf.berth.cell_timeout, PAGE_TIMEOUT))
    for cell, page in instance_pages(snapshot.hosts.cells, calls):
        for one in page:
            row = row_of.get((cell.uuid, one.host, one.node or ""))
            if row is None:
                row = next(iter(snapshot.table.rows_of_host.get((cell.uuid, one.host), ())), -1)
            found.uuids.append(one.uuid)
            found.states.append(states.setdefault(one.vm_state, one.vm_state))
            found.tasks.append(states.setdefault(one.task_state, one.task_state))
            found.names.append(one.display_name)
            found.projects.append(states.setdefault(one.project_id, one.project_id))
            rows.append(row)
            visible.append(not one.hidden and one.vm_state != SOFT_DELETED)
        snapshot.progress("instances", len(rows), total)
    found.rows, found.visible = np.array(rows, np.int32), np.array(visible, bool)
    found.specs = np.full(len(rows), UNREAD, np.int32)
    found.index_of = {uuid: index for index, uuid in enumerate(found.uuids)}
    return found


@contextmanager
def _readable(what: str) -> Iterator[None]:
    try:
        yield
    except (*UNREADABLE, PlacementError) as error:
        raise CloudUnreadable(f"{what} cannot be read: {brief(error)}") from error
