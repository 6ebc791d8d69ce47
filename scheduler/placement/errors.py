"""The errors of requests to Placement, and what an error of the HTTP library says of a request.

::

    BerthError
    └── PlacementError
        ├── PlacementAuthFailure   the credentials or their options are wrong: the daemon does not start
        ├── QuestionRefused        the response to a question is an error, or cannot be read
        ├── MirrorStale            the hosts of a request have changed since the mirror was read
        └── PlacementSilent        there was no response
            ├── PlacementUnreachable   and the request was certainly not carried out
            └── PlacementUnanswered    and the request may have been carried out, or may yet be

spec: placement-and-workflow 3
"""

from collections.abc import Iterator
import ssl

import requests
import urllib3

from scheduler.errors import BerthError, PlacementUnavailable

_NOT_SENT = (
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.ConnectTimeoutError,
    ssl.SSLCertVerificationError,
)


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


def was_sent(error: BaseException) -> bool:
    """Return whether the request may have reached the server."""
    transport = _transport_error(error)
    if transport is None:
        # Keystone refused, or the catalog has no such service.
        return False
    return not any(isinstance(cause, _NOT_SENT) for cause in _causes(transport))


def timed_out(error: BaseException) -> bool:
    """Return whether the server may still be working on the request."""
    transport = _transport_error(error)
    kinds = (requests.exceptions.Timeout, urllib3.exceptions.ReadTimeoutError)
    return transport is not None and any(isinstance(cause, kinds) for cause in _causes(transport))


def certificate_refused(error: BaseException) -> bool:
    """Return whether the certificate of a server is not trusted."""
    transport = _transport_error(error)
    return transport is not None and any(
        isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(transport)
    )


def _transport_error(error: BaseException) -> requests.exceptions.RequestException | None:
    """Return the error of the HTTP library, which keystoneauth wraps; None if there is none."""
    for candidate in (error, error.__context__):
        if isinstance(candidate, requests.exceptions.RequestException):
            return candidate
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and those inside it, in arguments and reasons as requests and urllib3 nest them.

    Python's ``__context__`` is not followed: it may lead to the failure of an earlier request.
    """
    todo: list[object] = [error]
    while todo:
        cause = todo.pop()
        if isinstance(cause, BaseException):
            yield cause
            todo += [getattr(cause, "reason", None), *cause.args]
