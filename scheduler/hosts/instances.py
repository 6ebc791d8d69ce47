"""Which instances are on which hosts, asked of the cells when a request needs it.

The answers are as true as the databases at that moment; what computes cast about their instances is used only
to forget what was remembered of images. spec: host-state-and-cells 5.4, 5.7
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from oslo_log import log as logging
import sqlalchemy as sa

from scheduler.hosts.cells import Cell, Cells
from scheduler.hosts.chunks import chunks
from scheduler.hosts.gather import CellAnswer, CellCalls
from scheduler.hosts.held import Facts, HeldInstance
from scheduler.hosts.remembered import Remembered
from scheduler.hosts.request_instances import Place
from scheduler.hosts.tables import instance_system_metadata, instances
from scheduler.outages import Outage

LOG = logging.getLogger(__name__)

IMAGE_PREFIX = "image_"
SOFT_DELETED = "soft-delete"


class CellInstances:
    """The ``InstanceSource`` of requests, over the cells' databases. Any thread may use it.

    A cell that cannot be read is reported, and answered for with what was last heard of the same instances.
    """

    def __init__(self, cells: Cells, calls: CellCalls) -> None:
        self._cells = cells
        self._calls = calls
        self._last = Remembered()
        self._images = Remembered()
        self._distinct = Remembered()
        self._outages: dict[str, Outage] = {}

    def locate(self, uuids: Iterable[str]) -> Mapping[str, Sequence[Place]]:
        """(cell uuid, service host) of each of the instances, twice during a resize between cells.

        Soft-deleted and hidden ones count, deleted rows do not.
        """
        wanted = list(dict.fromkeys(uuids))
        found: dict[str, list[Place]] = {}
        answers = self._ask(self._cells.all, lambda cell: self._hosts_of(cell, wanted))
        for cell_uuid, answer in answers.items():
            if answer.error:
                hosts = {uuid: self._last.get((cell_uuid, uuid)) for uuid in wanted}
            else:
                hosts = answer.value
                self._last.put({(cell_uuid, uuid): hosts.get(uuid) for uuid in wanted})
            for uuid, host in hosts.items():
                if host is not None:
                    found.setdefault(uuid, []).append((cell_uuid, host))
        return found

    def hosts_of_instances(self, uuids: Iterable[str]) -> tuple[set[str], bool]:
        """Service hosts of the given instances, and whether all cells have answered.

        Soft-deleted and hidden ones do not count, as with the hosts of a group that conductors send.
        """
        columns = instances.c
        seen = (
            sa.func.coalesce(columns.vm_state, "") != SOFT_DELETED,
            sa.func.coalesce(columns.hidden, sa.false()) == sa.false(),
        )
        wanted = list(dict.fromkeys(uuids))
        answers = self._ask(self._cells.all, lambda cell: self._hosts_of(cell, wanted, *seen))
        hosts = {host for answer in answers.values() for host in (answer.value or {}).values()}
        return hosts, not any(answer.error for answer in answers.values())

    def on_host(self, cell_uuid: str, host: str) -> Mapping[str, HeldInstance]:
        """All instances of a host by uuid; none if its cell cannot be read."""
        uuids = self._held([(cell_uuid, host)]).get((cell_uuid, host), [])
        facts = Facts(lambda columns: self._live(columns, cell_uuid, uuids))
        return {uuid: HeldInstance(uuid, facts) for uuid in uuids}

    def image_properties(self, places: Iterable[Place]) -> Mapping[Place, Sequence[Mapping[str, str]]]:
        """Image properties (text by name, as stored) of every instance on these hosts.

        An image is read once for each instance, until a cast tells of a change on its host. Equal ones are
        the same object: there are few, and weighers look at each once.
        """
        held = self._held(places)
        unread: dict[str, list[str]] = {}
        for (cell_uuid, _), uuids in held.items():
            unread.setdefault(cell_uuid, []).extend(uuid for uuid in uuids if uuid not in self._images)
        for images in self._per_cell(unread, self._read_images).values():
            self._images.put({uuid: self._shared(image) for uuid, image in images.items()})
        return {place: [self._images.get(uuid, {}) for uuid in uuids] for place, uuids in held.items()}

    def changed(self, uuids: Iterable[str]) -> None:
        """A compute says that something is new with these instances: one may have been rebuilt."""
        self._images.drop(uuids)

    def _shared(self, image: dict[str, str]) -> dict[str, str]:
        content = frozenset(image.items())
        known = self._distinct.get(content)
        if known is None:
            self._distinct.put({content: image})
            return image
        return known

    def _ask(self, cells: Iterable[Cell], read: Callable[[Cell], Any]) -> Mapping[str, CellAnswer]:
        answers = self._calls.gather(cells, read)
        for uuid, answer in answers.items():
            outage = self._outages.get(uuid) or self._outages.setdefault(uuid, _outage(uuid))
            if answer.error:
                outage.report(answer.error)
            else:
                outage.over()
        return answers

    # -- reading ---------------------------------------------------------------------------------------------

    def _hosts_of(self, cell: Cell, uuids: list[str], *conditions: sa.ColumnElement) -> dict[str, str]:
        columns = instances.c
        query = sa.select(columns.uuid, columns.host).where(
            columns.deleted == 0, columns.host.is_not(None), *conditions
        )
        return {row.uuid: row.host for row in self._rows(cell, query, columns.uuid, uuids)}

    def _held(self, places: Iterable[Place]) -> dict[Place, list[str]]:
        """Uuids of the instances on each host that has any."""
        hosts: dict[str, list[str]] = {}
        for cell_uuid, host in places:
            hosts.setdefault(cell_uuid, []).append(host)
        found: dict[Place, list[str]] = {}
        for cell_uuid, rows in self._per_cell(hosts, self._read_hosts).items():
            for uuid, host in rows:
                found.setdefault((cell_uuid, host), []).append(uuid)
        return found

    def _read_hosts(self, cell: Cell, hosts: list[str]) -> list[tuple[str, str]]:
        columns = instances.c
        query = sa.select(columns.uuid, columns.host).where(columns.deleted == 0)
        return [(row.uuid, row.host) for row in self._rows(cell, query, columns.host, hosts)]

    def _read_images(self, cell: Cell, uuids: list[str]) -> dict[str, dict[str, str]]:
        columns = instance_system_metadata.c
        query = sa.select(columns.instance_uuid, columns.key, columns.value).where(
            columns.deleted == 0, columns.key.like("image\\_%", escape="\\")
        )
        found: dict[str, dict[str, str]] = {uuid: {} for uuid in uuids}
        for row in self._rows(cell, query, columns.instance_uuid, uuids):
            if row.value is not None:
                found[row.instance_uuid][row.key.removeprefix(IMAGE_PREFIX)] = row.value
        return found

    def _live(self, columns: Sequence[sa.Column], cell_uuid: str, uuids: list[str]) -> Sequence[sa.Row]:
        query = sa.select(*columns).where(columns[0].table.c.deleted == 0)
        rows = self._per_cell({cell_uuid: uuids}, lambda cell, _: self._rows(cell, query, columns[0], uuids))
        return rows.get(cell_uuid, ())

    def _rows(self, cell: Cell, query: sa.Select, column: sa.Column, values: Iterable[str]) -> list[sa.Row]:
        with self._cells.engine(cell).connect() as connection:
            return [
                row for piece in chunks(values) for row in connection.execute(query.where(column.in_(piece)))
            ]

    def _per_cell(self, wanted: Mapping[str, list[str]], read: Any) -> dict[str, Any]:
        """What ``read`` finds in each cell for its list; cells that cannot be read are left out."""
        cells = [cell for cell in self._cells.all if wanted.get(cell.uuid)]
        answers = self._ask(cells, lambda cell: read(cell, wanted[cell.uuid]))
        return {uuid: answer.value for uuid, answer in answers.items() if not answer.error}


def _outage(cell_uuid: str) -> Outage:
    return Outage(
        LOG,
        f"Instances of cell {cell_uuid} cannot be read",
        f"Instances of cell {cell_uuid} can be read again",
    )
