"""Exceptions as callers see them (spec: wire-and-config 4).

::

    RemoteError              made for the wire: one text argument, plain JSON
    ├── InternalError        an unexpected failure whose exception cannot be sent
    └── nova.exception.*     classes made here under the names that nova's services catch
"""

from collections.abc import Mapping
import json

from scheduler import errors
from scheduler.logs import sanitize

MODULE = "nova.exception"
_LONGEST_TEXT = 800


class RemoteError(Exception):
    """An exception made for the wire: its text is its one argument, and all of it is plain JSON.

    Subclasses made here have the name of a class of nova.exception, by which nova's services catch them.

    Attributes:
        kwargs: What a caller's class is rebuilt with besides the text.
    """

    def __init__(self, message: str, **kwargs: object) -> None:
        self.kwargs = kwargs
        super().__init__(message)


class InternalError(RemoteError):
    """An unexpected failure of the scheduler whose exception cannot be sent as it is."""


def for_caller(error: BaseException) -> Exception:
    """Return the exception to send in place of ``error``; it may be the same one.

    An exception that would end a thread or process (``SystemExit``, ``KeyboardInterrupt``, ``GeneratorExit``)
    becomes an ``InternalError``: neither end of the connection may be ended by it. The same holds for
    one whose text has several lines, is long or has a URL with a password: such texts quote what a user sent,
    and callers log them.
    """
    if isinstance(error, errors.BerthError) and error.nova_name is not None:
        return _of_berth(error, error.nova_name)
    if errors.is_fault_of_request(error):
        # Users would read the name of the class, and nothing else.
        return _class("Invalid")(_short_line(str(error)))
    if isinstance(error, Exception) and _can_be_sent(error):
        return error
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an error's own __str__ may raise anything
        text = ""
    return InternalError(f"{type(error).__name__}: {_short_line(text)}")


def of_failure(name: str, module: str, text: str, kwargs: Mapping[str, object]) -> Exception:
    """Return an exception that a scheduler has replied, to be replied once more."""
    return _class(name, module)(text, **{key: value for key, value in kwargs.items() if key != "final"})


def _of_berth(error: errors.BerthError, name: str) -> Exception:
    kwargs: dict[str, object] = {}
    if isinstance(error, errors.NoValidHost):
        kwargs = {"reason": _short_line(error.reason), "code": 500}
        if error.final:
            kwargs["final"] = True  # for a router; nova's class ignores it
    elif isinstance(error, errors.DependencyUnavailable):
        kwargs = {"code": 503}  # nova's classes stand for 404 and 500
    return _class(name)(_short_line(str(error)), **kwargs)


def _class(name: str, module: str = MODULE) -> type[RemoteError]:
    # oslo.messaging sends the name and the module of an exception's class; nova need not be installed
    return type(name, (RemoteError,), {"__module__": module})


def _can_be_sent(error: Exception) -> bool:
    try:
        json.dumps([str(error), error.args, getattr(error, "kwargs", {})])
        return _short_line(str(error)) == str(error)
    except Exception:  # noqa: BLE001 - as above
        return False


def _short_line(text: str) -> str:
    return sanitize(text[:_LONGEST_TEXT])
