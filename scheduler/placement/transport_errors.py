"""What an error of the HTTP library means for the request: was it sent, and may it still be carried out?

spec: placement-and-workflow 3
"""

from collections.abc import Iterator
import ssl

import requests
import urllib3

_NOT_SENT = (
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.ConnectTimeoutError,
    ssl.SSLCertVerificationError,
)


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
