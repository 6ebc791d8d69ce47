"""What can go wrong between here and Placement.

::

    BerthError
    └── PlacementError
        ├── PlacementAuthFailure   the credentials, or their options, are wrong: the daemon does not start
        └── PlacementSilent        no answer came
            ├── PlacementUnreachable   and the request was certainly not carried out
            └── PlacementUnanswered    and the request may have been carried out, or may yet be
"""

from scheduler.errors import BerthError


class PlacementError(BerthError):
    """Root of this room's errors."""


class PlacementAuthFailure(PlacementError):
    """``[placement]`` names no usable credentials, or Keystone refuses them."""


class PlacementSilent(PlacementError):
    """No answer; the text says why."""


class PlacementUnreachable(PlacementSilent):
    """The request never reached Placement."""


class PlacementUnanswered(PlacementSilent):
    """The request was sent, and its outcome is unknown.

    :ivar timed_out: the server may still be at it; otherwise the connection broke.
    """

    def __init__(self, text: str, *, timed_out: bool = False) -> None:
        self.timed_out = timed_out
        super().__init__(text)
