"""What receives the outcome of claims: the mirror of Placement, and other schedulers."""

from typing import Protocol

from scheduler.claims.result import ClaimResult
from scheduler.placement.answer import AllocationCandidate, Resources


class ClaimObserver(Protocol):
    """Receives the outcome of the claims of requests, once it is known."""

    def claimed(self, instance_uuid: str, allocations: Resources) -> None:
        """Note what a claim gave an instance, by provider."""

    def released(self, instance_uuid: str, allocations: Resources) -> None:
        """Note that a claim is released."""

    def refused(self, result: ClaimResult, candidate: AllocationCandidate) -> None:
        """Note that a claim was refused, and another host may do."""


class Mirror(Protocol):
    """What is known of Placement's compute nodes."""

    def claimed(self) -> None:
        """Count a claim."""

    def released(self, allocations: Resources) -> None:
        """Count a claim that is released."""

    def refused(self, refusal: ClaimResult, candidate: AllocationCandidate) -> None:
        """Note a refusal."""


class Sharing(Protocol):
    """What tells other schedulers of claims."""

    def claimed(self, instance: str, allocations: Resources) -> None:
        """Tell of a claim."""

    def released(self, instance: str, allocations: Resources) -> None:
        """Tell of a claim that is released."""


class MirrorAndOthers:
    """Tells the mirror and other schedulers of the claims of a process."""

    def __init__(self, mirror: Mirror, others: Sharing) -> None:
        self._mirror = mirror
        self._others = others

    def claimed(self, instance_uuid: str, allocations: Resources) -> None:
        """Tell both of a claim."""
        self._mirror.claimed()
        self._others.claimed(instance_uuid, allocations)

    def released(self, instance_uuid: str, allocations: Resources) -> None:
        """Tell both of a claim that is released."""
        self._mirror.released(allocations)
        self._others.released(instance_uuid, allocations)

    def refused(self, result: ClaimResult, candidate: AllocationCandidate) -> None:
        """Report a refusal to the mirror, and to others that the host is no longer reserved."""
        self._mirror.refused(result, candidate)
