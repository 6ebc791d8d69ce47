"""What a call that is not answered yet waits for, as far as its message shows it."""

from collections.abc import Mapping

from scheduler.bounds.waits import Wait
from scheduler.decisions.open_requests import QUEUE, REPLY, START, OpenCall
from scheduler.rpc.amqp.message import ConfirmedMessage
from scheduler.rpc.calls import State

#: Characters of an id that is listed: anyone on the bus may send it.
LONGEST = 64


def describe(call: ConfirmedMessage, missing_since: float | None) -> OpenCall:
    """Return what is listed of a call. Of its context only the request id is shown: it may have a token.

    Args:
        missing_since: Since when it waits for its reply queue; None if it does not.
    """
    step, wait = _state(call, missing_since)
    uuids = _mapping(_mapping(call.message).get("args")).get("instance_uuids")
    return OpenCall(
        call.unique_id,
        _text(_mapping(call.ctxt).get("request_id")),
        tuple(map(_text, uuids)) if isinstance(uuids, list) else (),
        call.received,
        step,
        wait,
    )


def _state(call: ConfirmedMessage, missing_since: float | None) -> tuple[str, Wait | None]:
    if missing_since is not None:
        return REPLY, Wait(f"reply queue {_text(call.reply_q)}, which does not exist", missing_since)
    if call.replying_since:
        return REPLY, Wait("RabbitMQ, which has to confirm the reply", call.replying_since)
    return (START, None) if call.state is State.RUNS else (QUEUE, Wait("a free thread", call.received))


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value[:LONGEST] if isinstance(value, str) else ""
