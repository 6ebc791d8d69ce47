"""Reading of objects in a request, which can be nova's own if an operator's filter has put them there."""

from typing import Any


def field(obj: object, name: str) -> Any:
    """Return the value of a field, or the default of an unset one.

    None if it is unset and has no default, and for fields of None.
    """
    # An unset field of nova's objects tries to load itself, which ends in NotImplementedError.
    try:
        return getattr(obj, name, None)
    except NotImplementedError:
        return None
