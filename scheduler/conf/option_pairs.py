"""Options that list pairs, such as ``name=ratio`` (spec: filters-and-weighers 1.12, ``parse_options``)."""

from collections.abc import Callable, Iterable
from typing import Any

from oslo_log import log as logging

LOG = logging.getLogger(f"nova.{__name__}")


def parse_options(
    opts: Iterable[str], sep: str = "=", converter: Callable = str, name: str = ""
) -> list[tuple[str, Any]]:
    """Split options of the form ``key=value``.

    Args:
        converter: Converts each value; raises ``ValueError`` for a wrong one.
        name: The name of the option that has the list, for the log.

    Returns:
        (key, converted value) of each option in order, with duplicates. Options of another form are ignored,
        with a warning.
    """
    pairs, bad = [], []
    for option in opts:
        key, separator, value = option.partition(sep)
        try:
            if not key or not separator:
                raise ValueError(option)
            pairs.append((key, converter(value)))
        except ValueError:
            bad.append(option)
    if bad:
        LOG.warning("%s: ignoring %s, not of the form key%svalue", name, ", ".join(bad), sep)
    return pairs
