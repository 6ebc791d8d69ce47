"""The errors of requests to Placement.

::

    BerthError
    └── PlacementError
        ├── PlacementAuthFailure   the credentials or their options are wrong: the daemon does not start
        ├── QuestionRefused        the response to a question is an error, or cannot be read
        ├── MirrorStale            the hosts of a request have changed since the mirror was read
        └── PlacementSilent        there was no response
            ├── PlacementUnreachable   and the request was certainly not carried out
            └── PlacementUnanswered    and the request may have been carried out, or may yet be
"""

from scheduler.errors import BerthError, PlacementUnavailable


class PlacementError(BerthError):
    """Root of the errors of this package."""


class PlacementAuthFailure(PlacementError):
    """``[placement]`` names no usable credentials, or Keystone refuses them."""


class QuestionRefused(PlacementError):
    """Placement answered a question with an error, or with what cannot be read."""


class MirrorStale(PlacementError):
    """Too many hosts that were chosen by the mirror have changed: Placement is to be asked."""


class PlacementSilent(PlacementError):
    """There was no response; the text says why."""


class PlacementUnreachable(PlacementSilent):
    """The request never reached Placement."""


class PlacementUnanswered(PlacementSilent):
    """The request was sent, and its outcome is unknown.

    Attributes:
        timed_out: Whether the server may still be working on it; otherwise the connection broke.
    """

    def __init__(self, text: str, *, timed_out: bool = False) -> None:
        """Say in ``text`` what happened."""
        self.timed_out = timed_out
        super().__init__(text)


def unavailable(error: PlacementError, what: str = "") -> PlacementUnavailable:
    """Return the error of a request that needs what Placement did not answer; ``what`` names it."""
    timed_out = isinstance(error, PlacementUnanswered) and error.timed_out
    return PlacementUnavailable(f"{what}: {error}" if what else str(error), timed_out=timed_out)
