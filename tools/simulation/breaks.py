"""Deliberate breaks of the rules of recovery, which the simulation must notice.

Each break replaces a method of the model of the protocol. ``tools/simulate --faults --breaks`` runs histories
with each until one violates the promise.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
import math
from typing import Any

from tools.simulation.callers import State
from tools.simulation.protocol.channel import Channel
from tools.simulation.protocol.run import Run
from tools.simulation.protocol.spool import Spool
from tools.simulation.protocol.worker import Worker
from tools.simulation.protocol.writing import Held, Outcome, Writer, Written

#: Histories within which a break is to be noticed.
MOST = 2000

Break = Callable[[], None]


def _wrap(owner: type, name: str, make: Callable[[Any], Any]) -> Break:
    """Return what replaces a method by what ``make`` makes of it."""
    return lambda: setattr(owner, name, make(getattr(owner, name)))


def _constant(value: Any) -> Callable[[Any], Any]:
    return lambda _method: lambda *_arguments, **_options: value


def _without_source(method: Any) -> Any:
    def without(run: Run, *arguments: Any) -> Any:
        run._source, source = frozenset(), run._source  # noqa: SLF001
        try:
            return method(run, *arguments)
        finally:
            run._source = source  # noqa: SLF001

    return without


def _acknowledging_first(method: Any) -> Any:
    def answer(run: Run, *arguments: Any) -> Any:
        run._around.channel.acknowledge(run.delivery)  # noqa: SLF001
        return method(run, *arguments)

    return answer


def _past_is(choose: Callable[[Any], bool]) -> Callable[[Any], Any]:
    def make(method: Any) -> Any:
        def take(channel: Channel, stopped: Any) -> Any:
            delivery = method(channel, stopped)
            return delivery and replace(delivery, past=choose(delivery))

        return take

    return make


def _outcome_instead(before: Outcome, after: Outcome) -> Callable[[Any], Any]:
    def make(method: Any) -> Any:
        def write(writer: Writer, wanted: Any, *arguments: Any) -> Written:
            written = method(writer, wanted, *arguments)
            held = {uuid: Held(one.rows, (one.generation or 0) + 1) for uuid, one in wanted.items()}
            return Written(after, held) if written.outcome is before else written

        return write

    return make


def _giving_up_lost(instead: Outcome) -> Callable[[Any], Any]:
    """A try without a response ends the write, with a made-up outcome."""

    def make(method: Any) -> Any:
        def write(writer: Writer, wanted: Any, deadline: float, lost: Any = lambda: None) -> Written:
            marks: list[bool] = []
            written = method(writer, wanted, -math.inf if not marks else deadline, lambda: marks.append(True))
            if written.outcome is Outcome.UNKNOWN:
                held = {uuid: Held(one.rows, (one.generation or 0) + 1) for uuid, one in wanted.items()}
                return Written(instead, held)
            return written if written.outcome is not Outcome.AWAY else method(writer, wanted, deadline, lost)

        return write

    return make


def _overwriting(method: Any) -> Any:
    """Write with whatever generation a consumer has."""

    def write(writer: Writer, wanted: Any, deadline: float, lost: Any = lambda: None) -> Written:
        written = method(writer, wanted, deadline, lost)
        if written.outcome is not Outcome.CHANGED:
            return written
        found = writer.read_many(wanted, deadline) or {}
        return method(
            writer,
            {uuid: Held(one.rows, found.get(uuid, Held()).generation) for uuid, one in wanted.items()},
            deadline,
            lost,
        )

    return write


def _forgetting(method: Any) -> Any:
    def make(worker: Worker, parts: Any, entries: Any) -> None:
        entries.clear()
        method(worker, parts, entries)

    return make


def _at_once(method: Any) -> Any:
    """Look at a consumer before a late write can have come."""

    def note(spool: Spool, wanted: Any, source: Any = frozenset()) -> None:
        method(spool, wanted, source)
        for uuid in wanted:
            spool._entries[uuid].due = spool._clock()  # noqa: SLF001

    return note


def _without_lost(method: Any) -> Any:
    return lambda spool, wanted, source=frozenset(): method(spool, {uuid: {} for uuid in wanted}, source)


def _not_releasing(method: Any) -> Any:
    def drop(run: Run, reason: str) -> None:
        run._states = lambda: dict.fromkeys(run.uuids, State.PLACED)  # type: ignore[method-assign]  # noqa: SLF001
        method(run, reason)

    return drop


def _as_sent(method: Any) -> Any:
    return lambda worker, reply: method(worker, reply) is not False


def _with_or_without_queue(method: Any) -> Any:
    return lambda worker, reply: method(worker, reply) is not None or None


def _endless(method: Any) -> Any:
    return lambda run, around, delivery, _timeout: method(run, around, delivery, 4000.0)


def _first_only(method: Any) -> Any:
    """Release one instance of several."""

    def release(run: Run) -> bool:
        for uuid in run.uuids[1:]:
            run._held.pop(uuid, None)  # noqa: SLF001
        return method(run)

    return release


def _partly(method: Any) -> Any:
    """Take a call for settled of which one instance holds a host."""

    def claim(run: Run) -> bool:
        held = [one for one in run.uuids if run._has_host(one)]  # noqa: SLF001
        if not held:
            return method(run)
        run._held |= dict.fromkeys(run.uuids, run._held[held[0]])  # noqa: SLF001
        run._past = False  # noqa: SLF001
        return True

    return claim


BREAKS: dict[str, Break] = {
    "a call with a past is wanted, whatever nova says": _wrap(Run, "_is_wanted", _constant(True)),
    "wanted and not wanted are mixed up": _wrap(
        Run, "_is_wanted", lambda method: lambda run: not method(run)
    ),
    "a call that is not wanted keeps what its instances hold": _wrap(Run, "_drop", _not_releasing),
    "no fence": _wrap(Run, "_fence", _constant(True)),
    "a fence that failed counts": _wrap(Run, "_fence", lambda method: lambda run: method(run) or True),
    "nothing is released before an error": _wrap(Run, "_release_before_error", _constant(True)),
    "one instance of several is released before an error": _wrap(Run, "_release_before_error", _first_only),
    "the error of a call that was answered releases": _wrap(
        Run, "_states", lambda _method: lambda run: dict.fromkeys(run.uuids, State.WAITING)
    ),
    "a write replaces what another one wrote": _wrap(Writer, "write", _overwriting),
    "a message is acknowledged before its reply": _wrap(Run, "_answer", _acknowledging_first),
    "no message counts as redelivered": _wrap(Channel, "take", _past_is(lambda _delivery: False)),
    "the backlog is taken for new calls": _wrap(
        Channel, "take", _past_is(lambda delivery: delivery.message.redelivered)
    ),
    "the file of the spool is not read": _wrap(Worker, "__init__", _forgetting),
    "the spool is never worked through": _wrap(Spool, "work", _constant(None)),
    "what is in doubt is looked at before late writes have come": _wrap(Spool, "note_lost", _at_once),
    "nothing is noted of a write without a response": _wrap(Run, "_note_lost", _constant(None)),
    "nothing is noted of earlier runs": _wrap(Run, "_note_earlier_runs", _constant(None)),
    "nothing is noted of a claim that was not released": _wrap(Spool, "note_unreleased", _constant(None)),
    "a write without a response counts as done": _wrap(Writer, "write", _giving_up_lost(Outcome.DONE)),
    "a write without a response counts as refused": _wrap(Writer, "write", _giving_up_lost(Outcome.REFUSED)),
    "a refusal counts as done": _wrap(Writer, "write", _outcome_instead(Outcome.REFUSED, Outcome.DONE)),
    "another run that was first is ignored": _wrap(
        Writer, "write", _outcome_instead(Outcome.CHANGED, Outcome.DONE)
    ),
    "one held instance answers for all": _wrap(Run, "_claim_missing", _partly),
    "a message is acknowledged in the place of being requeued": _wrap(
        Channel, "requeue", lambda _method: Channel.acknowledge
    ),
    "a reply that was not confirmed counts": _wrap(Worker, "send", _as_sent),
    "a reply without a queue counts": _wrap(
        Worker, "send", lambda method: lambda *given: method(*given) or True
    ),
    "the deadline is ignored": _wrap(Run, "__init__", _endless),
    "an evacuated instance loses what it had": _wrap(Run, "_without_host", _without_source),
    "a failed read counts as nothing held": _wrap(
        Writer, "read_many", lambda method: lambda *given: method(*given) or dict.fromkeys(given[1], Held())
    ),
}


def apply(name: str) -> None:
    """Break what has this name, for the rest of the process."""
    BREAKS[name]()


def names() -> Iterable[str]:
    """Return the names of all."""
    return BREAKS
