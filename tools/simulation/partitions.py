"""Partitions with schedulers that send calls on to each other, and a model of which of them seem to be alive.

Imported after ``imports.install``.
"""

from collections.abc import Callable

from scheduler.conf.partitions import Partition
from scheduler.router.router import Router
from scheduler.stream.records import Member
from tools.simulation import threads
from tools.simulation.plan import Limits


class Partitions:
    """The partitions as one scheduler knows them. Schedulers and hosts go to them in turn.

    Args:
        limits: What the history has drawn.
        number: The scheduler; its number says which partition is its own.
        views_differ: Returns whether schedulers take different ones for alive now.

    Attributes:
        count: How many there are.
        index: Which of them is its own.
        own: Its own.
    """

    def __init__(self, limits: Limits, number: int, views_differ: Callable[[], bool]) -> None:
        self._limits = limits
        self._number = number
        self._views_differ = views_differ
        names = [f"p{each}" for each in range(limits.partitions)]
        self._partitions = [Partition(name, f"berth.partition.{name}") for name in names]
        self.count = limits.partitions
        self.index = number % self.count
        self.own = self._partitions[self.index]

    def make_router(self) -> Router:
        """Return what sends calls on; the product's own."""
        return Router(self._partitions, self._member(self._number), self, self._members, self._members)

    def has_host(self, partition: str, host: str) -> bool:
        """Return whether a host is in a partition."""
        return self._partitions[int(host[1:]) % self.count].name == partition

    def has_cell(self, _partition: str, _cell_uuid: str) -> bool | None:
        """Return that it is not known: there is one cell."""
        return None

    def _members(self) -> list[Member]:
        """Return the schedulers that seem to be alive; a killed one does, as others learn of it late.

        The free memory of each, by which partitions are chosen, is another one each time.
        """
        random = threads.MODULES["random"].random
        seen = [n for n in range(self._limits.schedulers) if not self._views_differ() or random() < 0.5]
        return [self._member(n, int(1000 * random())) for n in seen]

    def _member(self, number: int, free_mb: int = 0) -> Member:
        partition = self._partitions[number % self.count]
        name = f"scheduler{number}"
        return Member(
            name, name, topic=partition.topic, partition=partition.name, free_mb=free_mb, total_mb=1000
        )
