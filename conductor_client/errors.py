"""The exceptions of the client and the stand-ins, as one tree.

::

    ConductorError
    ├── NoValidHost                an expected refusal of the scheduler
    │   └── MaxRetriesExceeded     no alternate is left, or the maximum number of hosts was tried
    └── AllocationUpdateFailed     another client changed the instance's allocations during a claim
"""

from typing import Self


class ConductorError(Exception):
    """The root of the tree."""


class NoValidHost(ConductorError):
    """No host can take the request.

    Attributes:
        reason: The text after "No valid host was found. ".
    """

    PREFIX = "No valid host was found. "

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(self.PREFIX + reason)

    @classmethod
    def from_message(cls, message: str) -> Self:
        """Return the error for the whole text that a scheduler sent."""
        return cls(message.removeprefix(cls.PREFIX))


class MaxRetriesExceeded(NoValidHost):
    """An instance cannot be rescheduled any more."""


class AllocationUpdateFailed(ConductorError):
    """The consumer changed in Placement after it was read."""
