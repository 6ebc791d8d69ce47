"""The methods of a server, and what callers get: whatever a method raises, a value, and one line of the log.

Remotely called can be those of the table and no others (spec: wire-and-config 1.5).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
import inspect
import re
import time

from oslo_log import log as logging
import oslo_messaging as messaging

from scheduler import errors
from scheduler.logs import RateLimitedLogger
from scheduler.rpc import library
from scheduler.rpc.calls import Call, Event
from scheduler.rpc.context import RequestContext
from scheduler.rpc.errors import RemoteError, for_caller
from scheduler.rpc.transport import BASE_NAMESPACE, TOPIC
from scheduler.rpc.wire import Frame

LOG = logging.getLogger(f"nova.{__name__}")

#: Of the scheduler's own methods, and of those that every nova service has.
VERSION, BASE_VERSION = "4.5", "1.1"

#: Characters of what is said of wrong arguments, whose names anyone can send.
LONGEST_TEXT = 200

_WORD = re.compile(r"\w{1,200}", re.ASCII)
_VERSION = re.compile(r"\d{1,9}\.\d{1,9}(\.\d{1,9})?", re.ASCII)


class Method:
    """What is called.

    Attributes:
        version: Of its interface.
        function: Called with the context and the arguments as objects; or with the call and the arguments as
            they are in the message.
        reads: Whether it takes objects, and returns them.
    """

    def __init__(self, version: str, function: Callable[..., object], *, reads: bool = True) -> None:
        self.version, self.function, self.reads = version, function, reads
        self.signature = inspect.signature(function)


Cast = Callable[[Mapping[str, object]], None]
"""Takes the arguments of a cast as they are in the message; must not wait."""


@dataclass(frozen=True)
class Answer:
    """What a call has come to.

    Attributes:
        result: As it is sent.
        failure: An error as it is sent; None for a result.
        event: Why there is no reply; None if there is one.
    """

    result: object = None
    failure: str | None = None
    event: Event | None = None


class Methods:
    """The methods of a server. Any thread may use it.

    Attributes:
        on_refusal: Called when a message could not be read; to be set before the server starts.
    """

    def __init__(
        self,
        methods: Mapping[str, Method],
        casts: Mapping[str, Cast] | None = None,
        serializer: messaging.Serializer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Serve methods by their names, and those that every nova service has.

        Args:
            casts: By name what takes casts, which need no reply; a call of one is answered with null.
            serializer: Makes objects of arguments, and writes results. A router needs none.
        """
        self.casts = casts or {}
        called = {name: Method(VERSION, _called(cast), reads=False) for name, cast in self.casts.items()}
        self._methods: Mapping[str | None, Mapping[str, Method]] = {
            None: {**called, **methods},
            BASE_NAMESPACE: {
                "ping": Method(BASE_VERSION, _ping),
                "get_backdoor_port": Method(BASE_VERSION, lambda _context: None),
            },
        }
        self._serializer = serializer or messaging.NoOpSerializer()
        # Anyone on the bus can send what is refused.
        self._warnings = RateLimitedLogger(LOG, clock=clock)
        self.on_refusal: Callable[[], None] = lambda: None

    def cast(self, frame: Frame) -> None:
        """Take a cast; in the thread that reads. Never raises."""
        name = frame.message.get("method")
        take = self.casts.get(name) if isinstance(name, str) else None
        if take is None:
            self._refuse("cast", f"no cast of {name!r:.100} is taken")
            return
        try:
            arguments = frame.message.get("args")
            take(arguments if isinstance(arguments, dict) else {})
        except errors.InvalidRequest as error:
            self._refuse(f"{name} cast", str(error))
        except BaseException:  # also SystemExit, which would end the thread
            LOG.exception("%s failed", name)

    def call(self, call: Call) -> Answer:
        """Answer a call. Never raises."""
        message = call.frame.message
        try:
            method, arguments = self._find(message)
            return Answer(self._call(method, call, arguments))
        except BaseException as error:  # noqa: BLE001 - also SystemExit, which a rule of an operator may raise
            if isinstance(error, errors.ReturnedToBroker) and not call.is_acknowledged:
                LOG.info("Requeueing call %s: %s", call.frame.msg_id, error)
                return Answer(event=Event.RETURNED)
            self._log(message.get("method"), error)
            # As a text: an error would keep the arguments of all that it passed.
            return Answer(failure=library.failure_of(for_caller(error)))

    def _call(self, method: Method, call: Call, arguments: dict[str, object]) -> object:
        context = RequestContext.from_dict(call.frame.context)
        context.call = call
        context.update_store()
        if not method.reads:
            return method.function(call, **arguments)
        try:
            method.signature.bind(context, **arguments)
        except TypeError as error:
            raise errors.InvalidRequest(str(error)[:LONGEST_TEXT]) from None
        read = {
            name: self._serializer.deserialize_entity(context, value) for name, value in arguments.items()
        }
        return self._serializer.serialize_entity(context, method.function(context, **read))

    def _find(self, message: Mapping[str, object]) -> tuple[Method, dict[str, object]]:
        """Return the method that a message names, and its arguments.

        Raises:
            _Unreadable: Method, arguments, version or namespace are of another type or form.
            NoSuchMethod: There is none, but others of this version.
            UnsupportedVersion: There is none of this version.
        """
        name, arguments = message.get("method"), message.get("args", {})
        version, namespace = message.get("version") or "1.0", message.get("namespace")
        if not (
            isinstance(name, str)
            and _WORD.fullmatch(name)
            and isinstance(arguments, dict)
            and (namespace is None or isinstance(namespace, str))
            and isinstance(version, str)
            and _VERSION.fullmatch(version)
        ):
            raise _Unreadable("Method, arguments, version or namespace of the message cannot be read")
        methods = self._methods.get(namespace, {})
        found = methods.get(name)
        if found is not None and _is_compatible(found.version, version):
            return found, arguments
        if any(_is_compatible(method.version, version) for method in methods.values()):
            raise messaging.NoSuchMethod(name)
        raise messaging.UnsupportedVersion(version, method=name)

    def _log(self, name: object, error: BaseException) -> None:
        """Log why a call has no result, in one line."""
        if isinstance(error, (messaging.NoSuchMethod, messaging.UnsupportedVersion, _Unreadable)):
            self._refuse(type(error).__name__, str(error))
        elif isinstance(error, (errors.NoValidHost, errors.DependencyUnavailable, RemoteError)):
            LOG.debug("%s", error)
        elif isinstance(error, errors.BerthError) or errors.is_fault_of_request(error):
            kind = type(error).__name__
            self._warnings.warning(f"{name} {kind}", "%s failed: %s: %s", name, kind, error)
            if errors.is_fault_of_request(error):
                LOG.debug("%s failed", name, exc_info=error)
        else:
            LOG.error("%s failed", name, exc_info=error)

    def _refuse(self, kind: str, reason: str) -> None:
        self.on_refusal()
        self._warnings.warning(kind, "Message rejected: %.200s", reason)


class _Unreadable(errors.InvalidRequest):
    """A message that is no call."""


def _is_compatible(served: str, requested: str) -> bool:
    ours, theirs = (tuple(map(int, each.split("."))) for each in (served, requested))
    return ours[0] == theirs[0] and theirs[1] <= ours[1]


def _called(cast: Cast) -> Callable[..., None]:
    """Return the method of a cast that is called."""
    return lambda _call, /, **arguments: cast(arguments)


def _ping(_context: RequestContext, arg: object) -> dict[str, object]:
    """Show that the service is alive."""
    return {"service": TOPIC, "arg": arg}
