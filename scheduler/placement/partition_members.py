"""Whether Placement knows the hosts of a partition as members of its aggregates.

nova copies each change of an aggregate to Placement, under the same uuid. A copy that failed leaves out a
host: nova and Berth count it to the partition, but Placement never offers it.
"""

from collections.abc import Mapping, Sequence

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


def report(
    reports: RateLimitedLogger, name: str, missing: Sequence[str], without_partition: Sequence[str]
) -> None:
    """Log the hosts of a partition that Placement lacks, and those that belong to no partition."""
    if missing:
        reports.warning(
            ("missing", frozenset(missing)),
            "Hosts of partition %s that are not in its aggregates in Placement and get no instances: "
            "%d (%s); 'nova-manage placement sync_aggregates' adds them",
            name,
            len(missing),
            _first(missing),
        )
    if without_partition:
        reports.warning(
            ("stray", frozenset(without_partition)),
            "Hosts that belong to no partition and get no instances: %d (%s)",
            len(without_partition),
            _first(without_partition),
        )


def missing_hosts(
    client: PlacementClient, aggregates: frozenset[str] | None, nodes: Mapping[str, str]
) -> list[str]:
    """Return the hosts of a partition that Placement lacks, in order; none if it does not answer.

    Args:
        aggregates: The uuids of its aggregates; None: it is not by aggregates.
        nodes: The service host of each of its compute nodes, by uuid of the node.
    """
    if not aggregates:
        return []
    try:
        members = {one.uuid for one in read_list(client, list_path(member_of=aggregates))}
    except PlacementError:
        return []  # the client has logged it
    return sorted({host for uuid, host in nodes.items() if uuid not in members})


def _first(hosts: Sequence[str]) -> str:
    return ", ".join([*hosts[:NAMED], *(["..."] if len(hosts) > NAMED else [])])
