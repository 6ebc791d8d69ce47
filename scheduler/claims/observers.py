"""What receives the outcome of claims: the mirror of Placement, and other schedulers."""

from typing import Protocol

from scheduler.claims.result import ClaimResult
from scheduler.placement.answer import Resources
from scheduler.placement.mirror_source import CandidateMirror


class Sharing(Protocol):
    """Announces claims to other schedulers."""

    def claimed(self, instance: str, allocations: Resources) -> None:
        """Announce a claim."""

    def released(self, instance: str, allocations: Resources) -> None:
        """Announce a released claim."""


class ClaimObserver:
    """Reports the claims of a process to the mirror and other schedulers, once their outcome is known."""

    def __init__(self, mirror: CandidateMirror, others: Sharing) -> None:
        self._mirror = mirror
        self._others = others

    def claimed(self, instance_uuid: str, allocations: Resources) -> None:
        """Report what a claim gave an instance, by provider."""
        self._mirror.claimed()
        self._others.claimed(instance_uuid, allocations)

    def released(self, instance_uuid: str, allocations: Resources) -> None:
        """Report that a claim is released."""
        self._mirror.released(allocations)
        self._others.released(instance_uuid, allocations)

    def refused(self, result: ClaimResult) -> None:
        """Report to the mirror that a claim was refused, and another host may do."""
        self._mirror.refused(result.refused_provider, result.refused_class)
