"""What may come of an input: a reply or a documented error, of bounded length, and no secret anywhere."""

from collections.abc import Iterable
from dataclasses import dataclass, field
import logging
from pathlib import Path
import traceback
from types import TracebackType

import oslo_messaging as messaging

from scheduler.errors import BerthError
from tests.unit.fuzzing.mutations import SECRET
from tests.unit.fuzzing.worker import Answer

#: Characters of the text of an error.
LONGEST_ERROR = 1000
#: Characters of a line of the log, without a traceback.
LONGEST_LOG_LINE = 5000

#: Errors of the library for what is no call of this interface.
OF_LIBRARY = {messaging.NoSuchMethod.__name__, messaging.UnsupportedVersion.__name__}

#: Plain exceptions that rules raise for a hint or an extra spec, as nova's do: the file of the rule, and the
#: names of their classes.
OF_RULES = {
    "filters/json_filter.py": {"KeyError", "TypeError", "AttributeError", "ValueError", "JSONDecodeError"},
    "filters/affinity_filter.py": {"AddrFormatError", "TypeError", "ValueError"},
    "filters/extra_specs_ops.py": {"ValueError"},
}


@dataclass
class Outcome:
    """What came of one input.

    Attributes:
        answer: What the caller got; None where there is no caller.
        records: What was logged.
        broken: What a target found out itself, as one line each.
    """

    answer: Answer | None = None
    records: list[logging.LogRecord] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


def problems(outcome: Outcome) -> list[str]:
    """Return what is wrong with an outcome: the kind of each problem, and what is special to it."""
    found = list(outcome.broken)
    found += _of_log(outcome.records)
    if outcome.answer is not None:
        found += _of_answer(outcome.answer, outcome.records)
    return found


def documented_names() -> set[str]:
    """Return the names of the classes that callers may get."""
    found, waiting = set(OF_LIBRARY), [BerthError]
    while waiting:
        cls = waiting.pop()
        found |= {cls.__name__, cls.nova_name or cls.__name__}
        waiting += cls.__subclasses__()
    return found


def _of_answer(answer: Answer, records: Iterable[logging.LogRecord]) -> Iterable[str]:
    if answer.error is None:
        return
    if answer.error not in documented_names():
        # an exception that cannot be sent as it is begins its text with its name
        name = answer.text.partition(":")[0] if answer.error == "InternalError" else answer.error
        origin = _origin(records)
        if name not in OF_RULES.get(origin.partition(":")[0], ()):
            yield f"undocumented {name} at {origin}: {answer.text[:200]!r}"
    place = f"in the text of {answer.error}"
    if SECRET in answer.text:
        yield f"secret {place}: {answer.text[:200]!r}"
    if len(answer.text) > LONGEST_ERROR:
        yield f"more than {LONGEST_ERROR} characters {place}: {answer.text[:200]!r}"
    if len(answer.text.splitlines()) > 1:
        yield f"line break {place}: {answer.text[:200]!r}"


def _of_log(records: Iterable[logging.LogRecord]) -> Iterable[str]:
    for record in records:
        text = record.getMessage()
        if record.name == "nova.scheduler.bounds.background" and record.levelno >= logging.ERROR:
            yield f"a background loop failed: {text[:200]!r}: {_error_text(record)[-200:]!r}"
        where = f"in a log line of {record.name}:{record.lineno}"
        if SECRET in text or SECRET in _error_text(record):
            yield f"secret {where}: {text[:200]!r}"
        if len(text.splitlines()) > 1:
            yield f"line break {where}: {text[:200]!r}"
        if len(text) > LONGEST_LOG_LINE:
            yield f"more than {LONGEST_LOG_LINE} characters {where}: {text[:200]!r}"


def _error_text(record: logging.LogRecord) -> str:
    """Return what a log file has of a record after its message."""
    if not record.exc_info:
        return ""
    record.exc_text = logging.Formatter().formatException(record.exc_info)
    return record.exc_text


def _origin(records: Iterable[logging.LogRecord]) -> str:
    """Return file and line of this project where an exception came from."""
    found = [_innermost(record.exc_info[2]) for record in records if record.exc_info]
    return next((place for place in found if place), "?")


def _innermost(trace: TracebackType | None) -> str | None:
    frames = [frame for frame in traceback.extract_tb(trace) if "/scheduler/" in frame.filename]
    if not frames or frames[-1].filename.endswith("rpc/methods.py"):
        return None
    last = frames[-1]
    path = Path(last.filename)
    return f"{path.parent.name}/{path.name}:{last.name}"
