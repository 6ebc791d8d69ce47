"""Reading the objects that travel on the wire."""


def field(obj: object, name: str) -> object | None:
    """A field's value; None if it is unset, or if there is no object at all."""
    # An unset field of a versioned object tries to load itself, which ends in NotImplementedError.
    try:
        return getattr(obj, name, None)
    except NotImplementedError:
        return None
