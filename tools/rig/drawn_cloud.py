"""Drawn hosts in nova's databases, and on a Placement that serves one cloud after the other."""

from collections.abc import Callable, Sequence
from pathlib import Path
import random
from typing import Any

from tools.rig.draw import draw
from tools.rig.fleet import Cell, Fleet
from tools.rig.providers import database_url, empty
from tools.rig.world import RunningWorld, World


class DrawnCloud(RunningWorld):
    """A cloud, by default without a daemon; the Placement has no other hosts while it runs.

    Attributes:
        rng: Makes all choices.
    """

    def __init__(
        self,
        directory: Path,
        placement: tuple[str, Path],
        rng: random.Random,
        make_fleet: Callable[[random.Random, Sequence[Cell]], Fleet] = draw,
        **world: Any,
    ) -> None:
        """Describe the cloud that a generator of random numbers determines.

        Args:
            placement: The URL of a Placement, and its database, which is emptied.
            make_fleet: Returns the hosts; by default they are drawn.
            world: What is wanted besides.
        """
        url, self._database = placement
        urls = {"placement": database_url(self._database)}
        wanted = {"daemons": ()} | world
        super().__init__(World(urls=urls, placement=url, bus="memory", **wanted), directory)
        self.rng = rng
        self._make_fleet = make_fleet

    def make_fleet(self, cells: Sequence[Cell]) -> Fleet:
        """Return the hosts."""
        empty(self._database)
        return self._make_fleet(self.rng, cells)
