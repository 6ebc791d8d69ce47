"""In the place of the mirror of Placement where other schedulers' decisions are read without one."""

from collections.abc import Mapping
from typing import Any


class NoMirror:
    """Ignores the claims of others."""

    def claimed_elsewhere(self, allocations: Mapping[str, Any], age: float) -> None:
        """Ignore a claim."""

    def released_elsewhere(self, allocations: Mapping[str, Any], age: float) -> None:
        """Ignore a release."""
