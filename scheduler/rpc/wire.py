"""Requests and replies as oslo.messaging has them on the wire (spec: wire-and-config 1.2, 1.3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
import uuid

from scheduler.rpc import library

#: Characters of the identity of a message. oslo.messaging writes 32.
LONGEST_IDENTITY = 255

_CONTEXT = "_context_"


@dataclass(frozen=True, slots=True)
class Frame:
    """A request as it was received.

    Attributes:
        message: Method, arguments, version and namespace, of whatever types.
        context: The request context.
        msg_id: By which the caller finds the reply; "" for a cast.
        reply_queue: Where it goes; "" for a cast.
        identity: The same at each delivery of the message; "" if it has none.
        timeout: Seconds within which the caller has to hear something, as they were sent; None: it does not.
    """

    message: Mapping[str, object] = field(default_factory=dict)
    context: Mapping[str, object] = field(default_factory=dict)
    msg_id: str = ""
    reply_queue: str = ""
    identity: str = ""
    timeout: object = None


NOTHING = Frame()


def read(received: Mapping[str, object]) -> Frame:
    """Return the request of a message. Anyone on the bus can write it: nothing is taken for granted."""
    message = {key: value for key, value in received.items() if not key.startswith("_")}
    context = {
        key.removeprefix(_CONTEXT): value for key, value in received.items() if key.startswith(_CONTEXT)
    }
    msg_id, reply_queue = _text(received.get("_msg_id")), _text(received.get("_reply_q"))
    if not (msg_id and reply_queue):
        msg_id = reply_queue = ""
    identity = _text(received.get("_unique_id"))
    return Frame(message, context, msg_id, reply_queue, identity, received.get("_timeout"))


def reply(
    frame: Frame, result: object = None, failure: str | None = None, *, ending: bool = True
) -> dict[str, str]:
    """Return a reply to a request, as it is sent.

    Args:
        failure: An error, as ``library.failure_of`` returns it.
        ending: Whether it is the reply, and not a heartbeat.

    Raises:
        TypeError, ValueError, RecursionError: The result cannot be JSON.
    """
    body = {"result": result, "failure": failure, "ending": ending, "_msg_id": frame.msg_id}
    return library.envelope_of(body | {"_unique_id": uuid.uuid4().hex})


def _text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= LONGEST_IDENTITY and value.isprintable() else ""
