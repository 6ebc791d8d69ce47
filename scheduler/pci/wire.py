"""Reading the objects that a request carries, also where an operator's rule has put nova's own into it."""


def field(obj: object, name: str) -> object | None:
    """A field's value, an unset one's default; None if there is neither, or no object at all."""
    # An unset field of nova's objects tries to load itself, which ends in NotImplementedError.
    try:
        return getattr(obj, name, None)
    except NotImplementedError:
        return None
