"""What the client and the stand-ins raise, as one tree.

::

    ConductorError
    ├── NoValidHost                the scheduler's expected "no"
    │   └── MaxRetriesExceeded     no alternate is left, or as many hosts were tried as may be
    └── AllocationUpdateFailed     somebody else changed the instance's allocations meanwhile
"""


class ConductorError(Exception):
    """Root of the tree."""


class NoValidHost(ConductorError):
    """No host for the request; ``reason`` is the text after "No valid host was found. "."""

    PREFIX = "No valid host was found. "

    def __init__(self, reason=""):
        self.reason = reason
        super().__init__(self.PREFIX + reason)

    @classmethod
    def from_message(cls, message):
        """Make the error of the whole text that a scheduler sent."""
        return cls(message.removeprefix(cls.PREFIX))


class MaxRetriesExceeded(NoValidHost):
    """Rescheduling has come to its end for an instance."""


class AllocationUpdateFailed(ConductorError):
    """Placement's consumer is not as it was when it was read."""
