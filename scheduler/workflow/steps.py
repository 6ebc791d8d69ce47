"""What takes the steps of requests."""

from collections.abc import Callable
from dataclasses import dataclass
import time
from typing import Any, Protocol

from scheduler import objects
from scheduler.nova_db.inventory import Inventory
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.selection.mirrored_hosts import MirroredHosts
from scheduler.selection.server_groups import ServerGroups
from scheduler.workflow.callers import Callers
from scheduler.workflow.candidate_hosts import CandidateHosts
from scheduler.workflow.claiming import Claiming
from scheduler.workflow.held_hosts import HeldHosts


class Notifications(Protocol):
    """Where requests are announced."""

    def select_destinations_start(self, context: Any, spec: objects.RequestSpec) -> None:
        """Announce that hosts are being chosen for a request."""

    def select_destinations_end(self, context: Any, spec: objects.RequestSpec) -> None:
        """Announce that the hosts of a request were chosen."""

    def stop(self, timeout: float) -> None:
        """Send what still waits, in ``timeout`` seconds at most."""


@dataclass(frozen=True)
class Steps:
    """What takes the steps; shared by all requests.

    Attributes:
        hosts: What is known of the hosts.
        candidate_hosts: Finds the hosts of a request.
        held_hosts: Finds what its instances hold already.
        mirror: What is known of Placement's compute nodes.
        mirrored_hosts: Finds its hosts by the mirror.
        groups: Serves the requests of one affinity or soft-affinity group one after the other.
        claims: Opens the session that claims for it.
        callers: Finds out whether its caller still waits.
        notifications: Where it is announced.
        clock: Seconds that only grow.
    """

    hosts: Inventory
    candidate_hosts: CandidateHosts
    held_hosts: HeldHosts
    mirror: CandidateMirror
    mirrored_hosts: MirroredHosts
    groups: ServerGroups
    claims: Claiming
    callers: Callers
    notifications: Notifications
    clock: Callable[[], float] = time.monotonic
