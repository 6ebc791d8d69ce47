"""Deliberate breaks of the product's recovery, which the simulation must notice.

Each break replaces a function of the product for the rest of the process. ``tools/berth simulate --faults
--breaks`` runs histories with each until one violates the promise.

Imported after ``imports.install``.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from scheduler import manager
from scheduler.claims import claims as claims_of_process
from scheduler.claims import session as claims_of_request
from scheduler.claims.checks import CapacityCheck, GroupCheck
from scheduler.claims.claims import Claims
from scheduler.claims.doubts import Doubts
from scheduler.claims.session import Session
from scheduler.errors import CallerLeft
from scheduler.placement.allocation_writer import AllocationWriter, _Exchange
from scheduler.placement.allocations import NOTHING, AllocationReader
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.outcomes import Outcome
from scheduler.placement.write_queue import WriteQueue, _QueuedWrite
from scheduler.request.instance_state import OVER, InstanceState, all_waiting
from scheduler.request.past import Past
from scheduler.rpc import calls, consumer
from scheduler.rpc.bus import Bus, MessageTooLarge, NobodyReads, _Publication
from scheduler.rpc.consumer import Backlog, Consumer
from scheduler.rpc.keepalive import OpenCalls
from scheduler.rpc.server import Server
from scheduler.workflow.past import Recovery
from scheduler.workflow.run import RequestRun
from tools.simulation import product, threads

#: Histories within which a break is to be noticed.
MOST = 2000

Break = Callable[[], None]


def _wrap(owner: Any, name: str, make: Callable[[Any], Any]) -> Break:
    """Return what replaces a function by what ``make`` makes of it."""
    return lambda: setattr(owner, name, make(getattr(owner, name)))


def _constant(value: Any) -> Callable[[Any], Any]:
    return lambda _function: lambda *_arguments, **_options: value


def _property(value: Any) -> Callable[[Any], Any]:
    return lambda _property: property(lambda _self: value)


def _alias(owner: Any, name: str, other: str) -> Break:
    """Return what replaces a method by another one."""
    return lambda: setattr(owner, name, getattr(owner, other))


# -- who waits -----------------------------------------------------------------------------------------------


def _inverted(_check: Any) -> Any:
    def inverted(recovery: Recovery, request: Any, *, ask_nova: bool = True) -> None:
        if ask_nova and not OVER.issuperset(recovery._states_of(request)):  # noqa: SLF001
            raise CallerLeft("inverted")

    return inverted


def _all_wait(release: Any) -> Any:
    def released(recovery: Recovery, *arguments: Any) -> None:
        claims = recovery._claims  # noqa: SLF001
        states_of, claims.states_of = claims.states_of, all_waiting
        try:
            release(recovery, *arguments)
        finally:
            claims.states_of = states_of

    return released


# -- fence and releases --------------------------------------------------------------------------------------


def _fence_counts(fence: Any) -> Any:
    def fenced(session: Session) -> Mapping[str, Any]:
        fence(session)
        return {}

    return fenced


def _first_only(release: Any) -> Any:
    return lambda claimer, held, *rest: release(claimer, dict(list(held.items())[:1]), *rest)


def _whatever_generation(release: Any) -> Any:
    """Release what an instance holds now, also what others wrote."""

    def released(claimer: Claims, held: Any, *rest: Any) -> Any:
        try:
            now = claimer.read(list(held))
        except PlacementSilent:
            now = held
        return release(claimer, {uuid: now[uuid] for uuid in held if now[uuid].allocations}, *rest)

    return released


def _as_its_own(adopt: Any) -> Any:
    def adopted(claims: Session, found: Any) -> None:
        adopt(claims, found)
        claims._unclear.clear()  # noqa: SLF001

    return adopted


def _one_by_one(write: Any) -> Any:
    return lambda *given, **options: write(*given, **{**options, "all_or_none": False})


# -- writes --------------------------------------------------------------------------------------------------


def _overwriting(write: Any) -> Any:
    """Write with whatever generation a consumer has."""

    def overwrite(writer: AllocationWriter, writes: Any, **options: Any) -> Any:
        written = dict(write(writer, writes, **options))
        again = {
            uuid: replace(writes[uuid], generation=one.held.generation)
            for uuid, one in written.items()
            if one.outcome is Outcome.CHANGED and one.held.allocations
        }
        return written | write(writer, again, **options) if again else written

    return overwrite


def _ending(result: Outcome) -> Callable[[Any], Any]:
    """Let a try that is not clear end the write with this result."""

    def make(_function: Any) -> Any:
        def end(exchange: _Exchange, unit: Any, *_details: Any, **_more: Any) -> None:
            exchange._end(unit, result, "broken", unit.reply, unit.made())  # noqa: SLF001

        return end

    return make


def _changed_is_done(write: Any) -> Any:
    def written(writer: AllocationWriter, writes: Any, **options: Any) -> Any:
        return {
            uuid: replace(one, outcome=Outcome.DONE, held=writes[uuid].made(writes[uuid].generation))
            if one.outcome is Outcome.CHANGED
            else one
            for uuid, one in write(writer, writes, **options).items()
        }

    return written


def _nothing_on_error(read_many: Any) -> Any:
    def read(reader: AllocationReader, uuids: Any, *rest: Any, **options: Any) -> Any:
        try:
            return read_many(reader, uuids, *rest, **options)
        except PlacementSilent:
            return dict.fromkeys(uuids, NOTHING)

    return read


def _without_source(write_of: Any) -> Any:
    return lambda source, candidate, *rest: replace(
        write_of(source, candidate, *rest), allocations=candidate.allocations
    )


def _not_waiting(_send: Any) -> Any:
    def sent(queue: WriteQueue, units: Any, context: Any = None, *_refusal: Any) -> None:
        for unit in units:
            unit.reply = unit.error = None
        entry = _QueuedWrite(units, context)
        while entry.left:
            queue._send([entry])  # noqa: SLF001

    return sent


# -- messages ------------------------------------------------------------------------------------------------


def _acknowledging_first(send: Any) -> Any:
    def sent(server: Server, call: calls.Call) -> calls.Event:
        call.acknowledge()
        # long enough for the thread that acknowledges
        threads.sleep(0.05)
        return send(server, call)

    return sent


def _end_with(event: calls.Event, claims: calls.ClaimPolicy) -> None:
    event.claims = claims


def _ending_as(event: calls.Event, ended: calls.Event) -> Break:
    """Return what ends calls by the row of another event."""

    def act() -> None:
        ended.message, ended.claims = event.message, event.claims

    return act


def _failing(_open: Any) -> Any:
    def failing(*_arguments: Any) -> Any:
        raise AttributeError("an error of the product")

    return failing


def _settling_first(publish_again: Any) -> Any:
    def published(reading: Consumer, raw: Any, identity: str, losses: int) -> bool:
        reading.settle(raw, losses, consumer.Message.ack)
        # long enough for the thread that acknowledges
        threads.sleep(0.05)
        return publish_again(reading, raw, identity, losses)

    return published


def _swallowing(*kinds: type[BaseException]) -> Callable[[Any], Any]:
    """Count a reply as sent after these errors; without any: after all that are not permanent."""

    def make(reply: Any) -> Any:
        def replied(bus: Bus, *arguments: Any, **options: Any) -> None:
            try:
                reply(bus, *arguments, **options)
            except (MessageTooLarge, NobodyReads) as error:
                if not isinstance(error, kinds):
                    raise
            except Exception:
                if kinds:
                    raise

        return replied

    return make


def _one_for_all(of_each: Any) -> Any:
    """Take a call for settled of which one instance holds a host."""

    def found(recovery: Recovery, request: Any) -> Any:
        held = of_each(recovery, request)
        first = next(iter(held.values()), None)
        return held if first is None else {uuid: held.get(uuid, first) for uuid in request.instance_uuids}

    return found


# -- what is in doubt ----------------------------------------------------------------------------------------


def _at_once(put: Any) -> Any:
    """Look at a consumer before a late write can have come."""
    return lambda doubts, doubt: put(doubts, replace(doubt, due=doubt.since))


def _moves_as_builds(look: Any) -> Any:
    def looked(doubts: Doubts, doubt: Any, state: InstanceState, held: Any) -> Any:
        state = InstanceState.WAITING if state is InstanceState.MOVING else state
        return look(doubts, doubt, state, held)

    return looked


def _forgetting(release: Any) -> Any:
    """Note nothing of what is not released."""

    def released(claims: Claims, *arguments: Any) -> Any:
        doubts, claims.doubts = claims.doubts, SimpleNamespace(note_unknown=lambda *_: None)
        try:
            return release(claims, *arguments)
        finally:
            claims.doubts = doubts

    return released


#: By name: the profile whose histories bring it out, and what is broken.
BREAKS: dict[str, tuple[str, Break]] = {
    # who waits
    "a call with a past is wanted, whatever nova says": (
        "backlog",
        _wrap(Recovery, "check_caller", _constant(None)),
    ),
    "wanted and not wanted are mixed up": ("backlog", _wrap(Recovery, "check_caller", _inverted)),
    "the deadline is ignored": ("many", _wrap(manager.options, "caller_patience", _constant(1e6))),
    "no heartbeats are sent": ("many", _wrap(OpenCalls, "_beat", _constant(True))),
    # the fence
    "no fence": ("pieces", _wrap(Session, "fence", _constant({}))),
    "a fence that failed counts": ("pieces", _wrap(Session, "fence", _fence_counts)),
    "the fence is not all or none": ("together", _wrap(AllocationWriter, "write", _one_by_one)),
    "a claim after a release needs no fence": (
        "overlaps",
        lambda: setattr(Session, "released", property(lambda _self: False, lambda _self, _value: None)),
    ),
    "claims of several writes need no fence": (
        "pieces",
        _wrap(Session, "took_several_writes", _property(False)),
    ),
    # releases
    "what some instances hold is released though another was deleted": (
        "pieces",
        _wrap(Recovery, "_release", _all_wait),
    ),
    "nothing is released before an error": ("many and deleted", _wrap(Session, "_release", _constant(None))),
    "one instance of several is released": ("many and deleted", _wrap(Claims, "release", _first_only)),
    "a release removes what another run wrote": (
        "together",
        _wrap(Claims, "release", _whatever_generation),
    ),
    "the release is skipped if a reply cannot be delivered": (
        "reply",
        partial(_end_with, calls.Event.CALLER_GONE, calls.ClaimPolicy.LEAVE),
    ),
    "what a reply may have named is released": (
        "unconfirmed",
        partial(_end_with, calls.Event.UNCONFIRMED, calls.ClaimPolicy.RELEASE),
    ),
    "what another run wrote is released": (
        "redelivery",
        _wrap(Session, "adopt", _as_its_own),
    ),
    # writes
    "a write replaces what another one wrote": ("redelivery", _wrap(AllocationWriter, "write", _overwriting)),
    "another run that was first is ignored": (
        "redelivery",
        _wrap(AllocationWriter, "write", _changed_is_done),
    ),
    "a write without a response counts as done": (
        "placement",
        _wrap(_Exchange, "_lose", _ending(Outcome.DONE)),
    ),
    "a write without a response counts as refused": (
        "many and deleted",
        _wrap(_Exchange, "_lose", _ending(Outcome.REFUSED)),
    ),
    "a refusal counts as done": ("placement", _wrap(_Exchange, "_refuse", _ending(Outcome.DONE))),
    "a refusal that follows a lost write counts": (
        "overlaps",
        _wrap(_Exchange, "_may_come", _constant(False)),
    ),
    "a failed read counts as nothing held": (
        "unread",
        _wrap(AllocationReader, "read_many", _nothing_on_error),
    ),
    "an evacuated instance loses what it had": (
        "placement",
        _wrap(claims_of_process, "_write_of", _without_source),
    ),
    "writes have no order": ("crowd", _wrap(WriteQueue, "send", _not_waiting)),
    "no check for over-commit": ("crowd", _wrap(CapacityCheck, "look", _constant({}))),
    "claims go on while the process stops": ("stop", _wrap(Claims, "stop_claiming", _constant(None))),
    # messages
    "a message is acknowledged before its reply": (
        "kill",
        _wrap(Server, "_send", _acknowledging_first),
    ),
    "no message counts as redelivered": (
        "redelivery",
        _wrap(consumer, "was_delivered", _constant(False)),
    ),
    "the backlog is taken for new calls": ("backlog", _wrap(Backlog, "expect", _constant(None))),
    "no message has a past": ("backlog", _wrap(calls.Call, "past", _property(Past.NONE))),
    "a message is acknowledged in the place of being requeued": (
        "stop",
        _alias(calls.Call, "requeue", "acknowledge"),
    ),
    "a reply that was not confirmed counts": (
        "patient",
        _wrap(Bus, "reply", _swallowing()),
    ),
    "a reply without a queue counts": (
        "reply",
        _wrap(Bus, "reply", _swallowing(NobodyReads)),
    ),
    "a queue that nobody reads counts as read": ("reply", _wrap(_Publication, "_look", _constant(None))),
    "a call whose reply is not confirmed ends": (
        "unconfirmed",
        _ending_as(calls.Event.UNDELIVERABLE, calls.Event.UNCONFIRMED),
    ),
    "an unexpected error ends a request": ("crowd", _wrap(RequestRun, "_begin", _failing)),
    "nobody looks after the members of a group": ("groups", _wrap(GroupCheck, "look", _constant({}))),
    "nobody looks after the group once more after a fence": (
        "groups",
        _wrap(Session, "_look_after_fence", _constant(None)),
    ),
    "a call is acknowledged before it is published once more": (
        "kill",
        _wrap(Consumer, "publish_again", _settling_first),
    ),
    "what other partitions claimed is not found": (
        "partitions",
        lambda: setattr(product.Hosts, "outside", lambda _hosts, _uuids: product.NO_HOSTS),
    ),
    "one held instance answers for all": ("pieces", _wrap(Recovery, "_of_each", _one_for_all)),
    # what is in doubt
    "the sweep finds nothing": ("full", _wrap(Doubts, "note_given_up", _constant(None))),
    "doubts are never settled": ("overlaps", _wrap(Doubts, "_settle_due", _constant(False))),
    "what is in doubt is looked at before late writes have come": ("late", _wrap(Doubts, "_put", _at_once)),
    "a move is given up as soon as a build": ("moves", _wrap(Doubts, "_look", _moves_as_builds)),
    "nothing is noted of a write without a response": (
        "overlaps",
        _wrap(Session, "_note_lost", _constant(None)),
    ),
    "nothing is noted of earlier runs": (
        "full and moved",
        _wrap(Recovery, "note_earlier_runs", _constant(None)),
    ),
    "nothing is noted of a claim that was not released": (
        "many and deleted",
        _wrap(Claims, "release", _forgetting),
    ),
    "nothing is noted of a slow reply": ("frozen and moved", lambda: setattr(claims_of_request, "SOON", 1e9)),
}
