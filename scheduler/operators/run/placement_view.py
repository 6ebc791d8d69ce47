"""What Placement has of instances and hosts, read by the scheduler's own client."""

from collections.abc import Iterable
import contextlib

from oslo_config import cfg

from scheduler.operators.audit.placement_reader import PlacementReader
from scheduler.placement.allocations import AllocationReader
from scheduler.placement.client import PlacementClient


class PlacementView:
    """Placement by a client. Each call raises PlacementSilent."""

    def __init__(self, client: PlacementClient) -> None:
        self._client = client
        self._allocations = AllocationReader(client)

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> "PlacementView":
        return cls(PlacementClient.from_conf(conf))

    def providers_of(self, instance: str) -> set[str]:
        """Return the providers that have allocations of an instance."""
        return set(self._allocations.read(instance).allocations)

    def consumers_of(self, nodes: Iterable[str]) -> set[str]:
        """Return the consumers that hold something of some providers."""
        with contextlib.closing(PlacementReader(self._client, 1)) as reader:
            return {consumer for node in nodes for consumer in reader.consumers(node)}
