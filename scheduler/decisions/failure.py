"""What a request saw until it found no valid host."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduler.decisions.providers import RecentAnswers
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.placement.answer import AllocationCandidate, Candidates
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.ranking import Ranking


@dataclass
class Failure:
    """What a request saw until it failed.

    It refers to all hosts of the last pass.

    Attributes:
        answer: Placement's answer; None if the mirror named the hosts.
        offered: The hosts that were offered last; None if there were none.
        ranking: What filters did with them; None if they were not ranked.
    """

    request: SchedulingRequest
    queries: Sequence[Query] = ()
    answer: Candidates | None = None
    offered: HostView | None = None
    ranking: Ranking | None = None

    @property
    def number(self) -> int:
        """The first instance that has no host, from 0."""
        placed = {} if self.ranking is None else self.ranking.placed
        uuids = self.request.instance_uuids
        return next((number for number, uuid in enumerate(uuids) if uuid not in placed), 0)

    @property
    def placed(self) -> Sequence[tuple[str, AllocationCandidate | None]]:
        """For each instance with a host the UUID of its compute node and what it took."""
        return () if self.ranking is None else list(self.ranking.placed.values())


@dataclass
class KnownHosts:
    """The hosts of a table, and what an explanation finds out about them. Arrays have an entry for each host.

    Attributes:
        answers: What Placement answers; None: neither it nor a database may be queried.
        offered: Which hosts were offered to the request; bool.
        charged: Which hosts have instances of the request; bool.
        incomplete: Whether Placement, or a database, is still to be queried.
        notes: What was not looked at.
        cut: Constraints by name for which there may be more hosts that fail them alone.
    """

    table: HostTable
    failure: Failure
    answers: RecentAnswers | None = None
    incomplete: bool = False
    notes: list[str] = field(default_factory=list)
    cut: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.offered = self.none()
        if self.failure.offered is not None:
            self.offered[self.failure.offered.table_rows] = True
        self.charged = self.among(uuid for uuid, _ in self.failure.placed)

    def __len__(self) -> int:
        return len(self.table)

    def host(self, row: int) -> str:
        return self.table.rows[row].host

    def taken(self, name: str, amount: int) -> np.ndarray:
        """Return how much of a resource class instances of the request take of each host; int64.

        Args:
            amount: What each takes if the request claims nothing.
        """
        taken = np.zeros(len(self), np.int64)
        for uuid, candidate in self.failure.placed:
            # dedicated CPUs on one host, and shared ones of the fallback query on another
            own = {} if candidate is None else candidate.allocations.get(uuid, {})
            default = amount if candidate is None else 0
            taken[self.table.row_of_uuid[uuid]] += own.get("resources", {}).get(name, default)
        return taken

    def none(self) -> np.ndarray:
        return np.zeros(len(self.table), bool)

    def at(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return which hosts are in some rows."""
        found = self.none()
        found[rows] = True
        return found

    def among(self, uuids: Iterable[str]) -> np.ndarray:
        """Return which hosts these compute nodes are."""
        row_of = self.table.row_of_uuid
        return self.at([row_of[uuid] for uuid in uuids if uuid in row_of])

    def uuids(self, hosts: np.ndarray) -> list[str]:
        """Return the UUIDs of some hosts; bool, shape (hosts,)."""
        rows = self.table.rows
        return [rows[row].uuid for row in np.flatnonzero(hosts).tolist()]
