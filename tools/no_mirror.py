"""In the place of the mirror of Placement where other schedulers' decisions are read without one."""

from collections.abc import Mapping
from typing import Any


class NoMirror:
    """Ignores the claims of others."""

    def heard(self, allocations: Mapping[str, Any], age: float, sign: int) -> None:
        """Ignore a claim or a release."""
