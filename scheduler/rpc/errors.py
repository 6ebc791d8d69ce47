"""Errors as a caller is to see them (spec: wire-and-config 4)."""

from oslo_serialization import jsonutils

from scheduler import errors

MODULE = "nova.exception"
_LONGEST_TEXT = 2000


class RemoteError(Exception):
    """An error made for the wire: its text is its one argument, and all of it is plain JSON.

    Subclasses made here bear the name of a class of nova.exception, by which nova's services catch them.
    """

    def __init__(self, message, **kwargs):
        self.kwargs = kwargs
        super().__init__(message)


class InternalError(RemoteError):
    """Something of ours failed, and what it raised cannot be sent as it is."""


def for_caller(error):
    """The error to send in place of ``error``; it may be the same."""
    if isinstance(error, errors.BerthError):
        return _of_berth(error)
    return error if _can_be_sent(error) else InternalError(_describe(error))


def _of_berth(error):
    if error.nova_name is None:
        return error if _can_be_sent(error) else InternalError(_describe(error))
    kwargs = {"reason": error.reason, "code": 500} if isinstance(error, errors.NoValidHost) else {}
    return _nova_class(error.nova_name)(str(error), **kwargs)


def _nova_class(name):
    # oslo.messaging sends the names of an error's class and module; nothing of nova has to be there
    return type(name, (RemoteError,), {"__module__": MODULE, "__doc__": "An error of nova."})


def _can_be_sent(error):
    try:
        jsonutils.dumps([str(error), error.args, getattr(error, "kwargs", {})], default=_refuse)
    except Exception:  # noqa: BLE001 - an error's own __str__ may raise anything
        return False
    return True


def _refuse(value):
    raise TypeError(type(value).__name__)


def _describe(error):
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - as above
        text = ""
    return f"{type(error).__name__}: {text[:_LONGEST_TEXT]}"
