"""Reading wire objects whose parts may be unset or null."""


def read(obj, name: str, default=None):
    """``obj.name``; ``default`` when ``obj`` is null, or the field is unset or null."""
    if obj is None or name not in obj:
        return default
    value = getattr(obj, name)
    return default if value is None else value
