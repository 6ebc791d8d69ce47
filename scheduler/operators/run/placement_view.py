"""What Placement has of instances and hosts, read by the scheduler's own client."""

from collections.abc import Iterable
import contextlib
from typing import Protocol

from oslo_config import cfg

from scheduler.operators.audit.placement_reader import PlacementReader
from scheduler.placement.allocations import AllocationReader
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent


class PlacementView(Protocol):
    """What a run reads of Placement. Each call raises PlacementSilent."""

    def providers_of(self, instance: str) -> set[str]:
        """Return the providers that have allocations of an instance."""

    def consumers_of(self, nodes: Iterable[str]) -> set[str]:
        """Return the consumers that hold something of some providers."""


class ReadPlacement:
    """Placement by a client."""

    def __init__(self, client: PlacementClient) -> None:
        self._client = client
        self._allocations = AllocationReader(client)

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> "ReadPlacement":
        return cls(PlacementClient.from_conf(conf))

    def providers_of(self, instance: str) -> set[str]:
        return set(self._allocations.read(instance).allocations)

    def consumers_of(self, nodes: Iterable[str]) -> set[str]:
        # one for each call: it gives up for good after some failures
        with contextlib.closing(PlacementReader(self._client, 1)) as reader:
            providers = (reader.provider(node) for node in nodes)
            found: set[str] = set()
            for state in reader.states([one for one in providers if one is not None]):
                if isinstance(state, PlacementSilent):
                    raise state
                found |= set() if state is None else state.allocations.keys()
            return found
