"""Whether Placement knows the hosts of a partition as members of its aggregates.

nova copies each change of an aggregate to Placement, under the same uuid. A copy that failed leaves out a
host: nova and Berth count it to the partition, but Placement never offers it.
"""

from collections.abc import Callable, Mapping, Sequence

from oslo_log import log as logging

from scheduler.logs import RateLimitedLogger
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementError
from scheduler.placement.providers import list_path, read_list

LOG = logging.getLogger(f"nova.{__name__}")

# Seconds from the start to the first comparison, between two, and between two lines on the same hosts.
FIRST = 60.0
INTERVAL = 600.0
REPORT_INTERVAL = 86400.0

NAMED = 5
"""Hosts that a line names."""


class PartitionMembers:
    """Compares the hosts of a partition with Placement."""

    def __init__(
        self,
        client: PlacementClient,
        name: str,
        aggregates: Callable[[], frozenset[str] | None],
        nodes: Callable[[], Mapping[str, str]],
        without_partition: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        """Set up the comparison; nothing is read yet.

        Args:
            aggregates: Returns the uuids of its aggregates; None: it is not by aggregates.
            nodes: Returns the service host of each of its compute nodes, by uuid of the node.
            without_partition: Returns the service hosts that belong to no partition.
        """
        self._without_partition = without_partition
        self._client = client
        self._name = name
        self._aggregates = aggregates
        self._nodes = nodes
        self._reports = RateLimitedLogger(LOG, REPORT_INTERVAL)

    def look(self) -> None:
        """Compare once, and report the hosts that Placement lacks."""
        missing, stray = self.missing(), self._without_partition()
        if missing:
            self._reports.warning(
                ("missing", frozenset(missing)),
                "Hosts of partition %s that are not in its aggregates in Placement and get no instances: "
                "%d (%s); 'nova-manage placement sync_aggregates' adds them",
                self._name,
                len(missing),
                _first(missing),
            )
        if stray:
            self._reports.warning(
                ("stray", frozenset(stray)),
                "Hosts that belong to no partition and get no instances: %d (%s)",
                len(stray),
                _first(stray),
            )

    def missing(self) -> list[str]:
        """Return the hosts that Placement lacks, in order; none if it does not answer."""
        aggregates = self._aggregates()
        if not aggregates:
            return []
        nodes = self._nodes()
        try:
            members = {one.uuid for one in read_list(self._client, list_path(member_of=aggregates))}
        except PlacementError:
            return []  # the client has logged it
        return sorted({host for uuid, host in nodes.items() if uuid not in members})


def _first(hosts: Sequence[str]) -> str:
    return ", ".join([*hosts[:NAMED], *(["..."] if len(hosts) > NAMED else [])])
