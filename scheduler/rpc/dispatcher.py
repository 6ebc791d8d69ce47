"""Calls endpoints so that each message gets a reply, and an error releases what was claimed."""

from collections.abc import Callable, Mapping
import re

from oslo_log import log as logging
import oslo_messaging as messaging

from scheduler.errors import InvalidRequest
from scheduler.logs import RateLimitedLogger
from scheduler.rpc import calls
from scheduler.rpc.amqp.library import RPCDispatcher, RpcIncomingMessage
from scheduler.rpc.errors import for_caller
from scheduler.rpc.heartbeats import Heartbeats

LOG = logging.getLogger(f"nova.{__name__}")

_WORD = re.compile(r"\w{1,200}", re.ASCII)
_VERSION = re.compile(r"\d{1,9}\.\d{1,9}(\.\d{1,9})?", re.ASCII)
# Arguments of these names would be given to an endpoint twice.
_RESERVED = {"self", "context"}


class Dispatcher:
    """Calls endpoints so that each message gets a reply, whatever is raised on the way."""

    def __init__(
        self,
        dispatcher: RPCDispatcher,
        heartbeats: Heartbeats,
        warnings: RateLimitedLogger,
        on_refusal: Callable[[], None],
    ) -> None:
        """Dispatch in the place of oslo.messaging's dispatcher, and by it.

        Args:
            heartbeats: Released of a message once its endpoint is done with it.
            on_refusal: Called when a message could not be read.
        """
        self._on_refusal = on_refusal
        self._dispatcher = dispatcher
        self._heartbeats = heartbeats
        self._warnings = warnings

    def dispatch(self, incoming: RpcIncomingMessage) -> object:
        """Return the result, or raise what oslo.messaging sends to the caller."""
        try:
            _check_frame(incoming.message)
            try:
                result = self._dispatcher.dispatch(incoming)
            except BaseException:
                _fail()
                raise
            _check_channel(incoming)
            return result
        except (messaging.NoSuchMethod, messaging.UnsupportedVersion, InvalidRequest) as error:
            # anyone on the bus can send these: oslo.messaging would log a traceback for each
            self._on_refusal()
            self._warnings.warning(type(error).__name__, "Message rejected: %.200s", error)
            raise messaging.ExpectedException from None
        except (Exception, calls.NotAnswered):
            raise
        except BaseException as error:
            # oslo.messaging answers an Exception only, and SystemExit would end the thread of its pool
            LOG.exception("Message handling failed")
            raise for_caller(error) from error
        finally:
            self._heartbeats.release(incoming)


def _check_channel(incoming: RpcIncomingMessage) -> None:
    """Check that the broker does not have the message again.

    Raises:
        Lost: It has.
    """
    if getattr(incoming, "is_lost", False):
        raise calls.Lost("its channel was lost")


def _check_frame(message: Mapping[str, object]) -> None:
    """Refuse a message that oslo.messaging cannot read, and would log a traceback for.

    Raises:
        InvalidRequest: Method, arguments, version or namespace are of another type or form.
    """
    method, version, arguments = message.get("method"), message.get("version", "1.0"), message.get("args", {})
    readable = (
        isinstance(method, str)
        and _WORD.fullmatch(method)
        and isinstance(arguments, dict)
        and not _RESERVED & arguments.keys()
        and (message.get("namespace") is None or isinstance(message["namespace"], str))
        and (version is None or (isinstance(version, str) and _VERSION.fullmatch(version)))
    )
    if not readable:
        raise InvalidRequest("Method, arguments, version or namespace of the message cannot be read")


def _fail() -> None:
    """Release the claims of a call without a result before its error is sent, or it is returned."""
    current = calls.CURRENT.get()
    if current is not None:
        current.end_claims(calls.Event.FAILED)
