"""Where instances are, as one request sees it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduler.hosts.coordinates import TableRow
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.table import HostTable


@dataclass(frozen=True)
class Needs:
    """What rules need besides the table of hosts; loaded before they are run.

    Attributes:
        instance_uuids: Instances whose hosts are looked up.
        image_properties: Whether the image properties of all instances on the hosts are read.
    """

    instance_uuids: frozenset[str] = frozenset()
    image_properties: bool = False

    @classmethod
    def declared(cls, names: Collection[str], instance_uuids: Iterable[str]) -> "Needs":
        """Return the needs of a rule that declares these names and instances."""
        return cls(
            frozenset(instance_uuids) if "instances" in names else frozenset(), "image_properties" in names
        )

    def __or__(self, other: "Needs") -> "Needs":
        return Needs(
            self.instance_uuids | other.instance_uuids, self.image_properties or other.image_properties
        )


HostKey = tuple[str, str]
"""(cell uuid, service host)"""


class InstanceSource:
    """Where instances are: nowhere, in a cloud without any; ``CellInstances`` reads the cells' databases."""

    def locate(self, uuids: Iterable[str]) -> Mapping[str, Sequence[HostKey]]:
        """Return the places of each of the given instances that is on some host."""
        return {}

    def on_host(self, cell_uuid: str, host: str) -> Mapping[str, Any]:
        """Return all instances of one service host, as small objects with ``uuid``, by uuid."""
        return {}

    def image_properties(self, places: Iterable[HostKey]) -> Mapping[HostKey, Sequence[Mapping[str, str]]]:
        """Return the image properties (text by name, as stored) of each instance, by place."""
        return {}


class RequestInstances:
    """Where instances are: as the source reported once for each instance and host, and as chosen since.

    Kept by row of the table, so that hosts outside the view are covered too.
    """

    def __init__(self, source: InstanceSource, table: HostTable, pending: PendingPlacements) -> None:
        self.source = source
        self._table = table
        self._pending = pending
        self._placed: dict[str, set[int]] = {}
        self._located: dict[str, list[int]] = {}
        self._images: dict[HostKey, Sequence[Mapping[str, str]]] = {}

    def counts(self, uuids: Iterable[str]) -> np.ndarray:
        """Return how many of the given instances each host of the table holds or will hold.

        Returns:
            int64, shape (rows,).

        Raises:
            LookupError: An instance was not located before.
        """
        counts = np.zeros(len(self._table), dtype=np.int64)
        for uuid in uuids:
            for row in self._rows_holding(uuid):
                counts[row] += 1
        return counts

    def held(self, uuids: Iterable[str], row: TableRow) -> list[str]:
        """Return those of the given instances that the host of a row holds or will hold.

        Raises:
            LookupError: An instance was not located before.
        """
        return [uuid for uuid in uuids if row in self._rows_holding(uuid)]

    def place(self, uuid: str, row: TableRow) -> None:
        """Count an instance as being on the service host of this row, with all its nodes, from now on."""
        self._placed.setdefault(uuid, set()).update(self._table.rows_beside(row))

    def placed_on(self, row: int) -> list[str]:
        """Return the instances that this request has placed on the host of a row."""
        return [uuid for uuid, rows in self._placed.items() if row in rows]

    def image_properties(self, places: Sequence[HostKey]) -> list[Sequence[Mapping[str, str]]]:
        """Return for each place the image properties of each instance on it, those just placed left out.

        Raises:
            LookupError: The image properties of a place were not read before.
        """
        return [self._images[place] for place in places]

    def read_image_properties(self, places: Iterable[HostKey]) -> None:
        """Ask the source for the image properties of the instances in these places, once a request."""
        unread = [place for place in dict.fromkeys(places) if place not in self._images]
        if unread:
            self._images.update(dict.fromkeys(unread, ()))
            self._images.update(self.source.image_properties(unread))

    def _rows_holding(self, uuid: str) -> set[int]:
        """Return the rows of the hosts that hold an instance, or will after a choice of any request.

        Raises:
            LookupError: The instance was not located before.
        """
        row = self._pending.row_of(uuid, self._table)
        expecting = () if row is None else self._table.rows_beside(row)
        return self._placed.get(uuid, set()).union(self._located[uuid], expecting)

    def locate(self, uuids: Iterable[str]) -> None:
        """Ask the source where these instances are, once a request."""
        unknown = [uuid for uuid in dict.fromkeys(uuids) if uuid not in self._located]
        if not unknown:
            return
        places_of = self.source.locate(unknown)
        for uuid in unknown:
            places = places_of.get(uuid, ())
            self._located[uuid] = [row for place in places for row in self._table.rows_of_host.get(place, ())]
