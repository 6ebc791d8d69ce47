"""What all endpoints have in common: whatever a method raises, the caller gets a reply and the log one line.

Remotely called can be the methods of ``Base`` and of ``scheduler_endpoint.Scheduler``, and no others (spec:
wire-and-config 1.5).
"""

from collections.abc import Callable
import functools
import inspect
import logging

import oslo_messaging as messaging

from scheduler import errors
from scheduler.logs import RateLimitedLogger
from scheduler.rpc import calls
from scheduler.rpc.context import RequestContext
from scheduler.rpc.errors import for_caller
from scheduler.rpc.transport import BASE_NAMESPACE, TOPIC

LOG = logging.getLogger(f"nova.{__name__}")

VERSION = "4.5"
BASE_VERSION = "1.1"

Method = Callable[..., object]
"""A method of an endpoint."""


class Unreadable:
    """An argument that could not be read, with the error to send to the caller."""

    def __init__(self, error: errors.InvalidRequest) -> None:
        self.error: errors.InvalidRequest | None = error

    def take(self) -> errors.InvalidRequest:
        """Return the error, once: its traceback has frames whose arguments must not have the error."""
        error, self.error = self.error, None
        return error or errors.InvalidRequest("An argument cannot be read")


class Endpoint:
    """What all endpoints have.

    Attributes:
        warnings: Logs refused messages. Anyone on the bus can send those, so their number is limited.
    """

    def __init__(self, warnings: RateLimitedLogger | None = None) -> None:
        self.warnings = warnings or RateLimitedLogger(LOG)


def answering(method: Method) -> Method:
    """Decorate an endpoint method: any exception is logged once and sent in a form that callers can read."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def answer(self: Endpoint, context: RequestContext, **arguments: object) -> object:
        context.update_store()
        context.call = calls.CURRENT.get()
        result: object = None
        failure: Exception | None = None
        try:
            signature.bind(self, context, **arguments)
        except TypeError as error:
            self.warnings.warning(
                f"{method.__name__} arguments", "Call of %s rejected: %.200s", method.__name__, error
            )
            failure = error
        else:
            result, failure = _attempt(method, self, context, arguments)
        if failure is not None:
            try:
                raise failure
            except Exception:  # noqa: BLE001 - it was logged: oslo.messaging sends it and logs nothing
                raise messaging.ExpectedException from None
            finally:
                # No frame of its traceback may know the error: such a circle would keep the whole message
                del failure
        return result

    return answer


def _attempt(
    method: Method, endpoint: Endpoint, context: RequestContext, arguments: dict[str, object]
) -> tuple[object, Exception | None]:
    """Return the result and None, or None and the exception to send."""
    try:
        _refuse_unreadable(arguments)
        return method(endpoint, context, **arguments), None
    except (errors.NoValidHost, errors.DependencyUnavailable) as error:
        LOG.debug("%s", error)
        return None, for_caller(error)
    except errors.BerthError as error:
        if isinstance(error, errors.ReturnedToBroker):
            _return_for_another(context.call, error)
        _warn(endpoint, method, error)
        return None, for_caller(error)
    except calls.NotAnswered:
        raise
    except BaseException as error:  # also SystemExit, which a rule of an operator may raise
        if errors.is_fault_of_request(error):
            _warn(endpoint, method, error)
            LOG.debug("%s failed", method.__name__, exc_info=True)
        else:
            LOG.exception("%s failed", method.__name__)
        return None, for_caller(error)


def _warn(endpoint: Endpoint, method: Method, error: BaseException) -> None:
    name, kind = method.__name__, type(error).__name__
    endpoint.warnings.warning(f"{name} {kind}", "%s failed: %s: %s", name, kind, error)


def _return_for_another(current: calls.Call | None, error: Exception) -> None:
    """Return a request to the broker: another scheduler, or the next process of this one, can serve it.

    Raises:
        Requeued: The message is to be delivered once more.
    """
    if current is not None and current.can_be_requeued:
        raise calls.Requeued(str(error)) from error


def _refuse_unreadable(arguments: dict[str, object]) -> None:
    for value in arguments.values():
        if isinstance(value, Unreadable):
            raise value.take()


class Base(Endpoint):
    """The methods that every nova service has."""

    target = messaging.Target(namespace=BASE_NAMESPACE, version=BASE_VERSION)

    @answering
    def ping(self, context: RequestContext, arg: object) -> dict[str, object]:
        """Show that the service is alive."""
        return {"service": TOPIC, "arg": arg}

    @answering
    def get_backdoor_port(self, context: RequestContext) -> None:
        """Return null: there is no debugging shell."""
