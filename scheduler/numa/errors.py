"""What can be wrong with a host topology, or with charging a guest to it."""

from scheduler.errors import BerthError


class MalformedTopology(BerthError):
    """The NUMA topology of a compute node cannot be read; ``reason`` says what is wrong with it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class PinConflict(BerthError):
    """CPUs that a guest is to take are not free, or those that it gives back are not taken."""
