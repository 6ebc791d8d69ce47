"""What nova's databases say of an instance, for those that decide whether its caller still waits."""

from collections.abc import Callable, Collection, Mapping
from enum import Enum, auto


class InstanceState(Enum):
    """What nova says of an instance.

    Attributes:
        WAITING: A caller may wait for a host to build it on.
        MOVING: It has a task state: a caller may wait for a host to move it to, or it is on its way there.
        PLACED: Nobody waits, and what the instance holds may be in use.
        GIVEN_UP: Its conductor gave it up: no host that was claimed for it is in use.
        DELETED: Its user deleted it.
        MISSING: Nova does not know it.
        UNKNOWN: A database cannot be read.
    """

    WAITING = auto()
    MOVING = auto()
    PLACED = auto()
    GIVEN_UP = auto()
    DELETED = auto()
    MISSING = auto()
    UNKNOWN = auto()


#: Nobody waits for a host for such an instance.
OVER = frozenset({InstanceState.PLACED, InstanceState.GIVEN_UP, InstanceState.DELETED})

States = Mapping[str, InstanceState]
"""Instance UUID -> its state."""

ReadStates = Callable[[Collection[str], Collection[str]], States]
"""Returns the states of instances; given their UUIDs, and the hosts that their requests ignore."""


def all_waiting(uuids: Collection[str], _ignored_hosts: Collection[str] = ()) -> States:
    """Return that callers wait for all of them."""
    return dict.fromkeys(uuids, InstanceState.WAITING)
