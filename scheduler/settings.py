"""Options that list pairs, such as ``name=ratio`` (spec: filters-and-weighers 1.12, ``parse_options``)."""

from collections.abc import Callable, Iterable
from typing import Any

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


def parse_options(
    opts: Iterable[str], sep: str = "=", converter: Callable = str, name: str = ""
) -> list[tuple[str, Any]]:
    """(key, converted value) of each option in order, duplicates kept; those of another form are left out."""
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
        LOG.warning("%s: ignored are %s, which are not of the form key%svalue", name, ", ".join(bad), sep)
    return pairs
