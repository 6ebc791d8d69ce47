"""What can be wrong with charging a guest to a host."""

from scheduler.errors import BerthError


class PinConflict(BerthError):
    """CPUs that a guest is to take are not free, or those that it gives back are not taken."""
