"""What requests of one process decide at the same time, as one of them sees it (see ``pending``)."""

from collections.abc import Mapping

import numpy as np

from scheduler.hosts.pending import AMOUNTS, Pending
from scheduler.hosts.table import HostTable


class Reservations:
    """What is pending on the hosts of one request: its own, and that of others as it last looked.

    Hosts are named by position in ``rows``; arrays of amounts are in the order of ``AMOUNTS``.
    """

    def __init__(self, pending: Pending, table: HostTable, rows: np.ndarray) -> None:
        self.pending = pending
        self._table = table
        self._rows = rows
        self.others = np.zeros((len(AMOUNTS), len(rows)), np.int64)
        self._own = np.zeros_like(self.others)
        self._reserved: dict[str, tuple[int, np.ndarray]] = {}

    def catch_up(self) -> np.ndarray:
        """Look again at what others have; by how much it is more than before, shape (amounts, hosts)."""
        before, self.others = self.others, self.pending.over(self._table, self._rows) - self._own
        return self.others - before

    def reserve(self, position: int, instance_uuid: str, amounts: Mapping[str, int], *, anyway: bool) -> bool:
        """Note that an instance is to be on a host. False if others' notes there are not what they were.

        Nothing is noted then, unless ``anyway``.
        """
        taken = np.array([amounts.get(name, 0) for name in AMOUNTS], np.int64)
        seen = None if anyway else self.others[:, position] + self._own[:, position]
        reserved = self.pending.add(instance_uuid, self._table, int(self._rows[position]), taken, seen)
        if reserved:
            self._own[:, position] += taken
            self._reserved[instance_uuid] = position, taken
        return reserved

    def unreserve(self, instance_uuid: str) -> None:
        """Take a note of this request back; without one nothing happens."""
        if instance_uuid in self._reserved:
            position, taken = self._reserved.pop(instance_uuid)
            self._own[:, position] -= taken
            self.pending.drop([instance_uuid])
