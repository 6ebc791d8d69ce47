"""``name=ratio`` lists, as several options hold them (spec: filters-and-weighers 1.12, ``parse_options``)."""

from collections.abc import Iterable

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


def ratios(entries: Iterable[str], option: str) -> list[tuple[str, float]]:
    """(name, ratio) of each entry in order, duplicates kept; entries of another form are dropped with a
    warning.
    """
    pairs, bad = [], []
    for entry in entries:
        name, separator, ratio = entry.partition("=")
        try:
            if not separator or not name:
                raise ValueError(entry)
            pairs.append((name, float(ratio)))
        except ValueError:
            bad.append(entry)
    if bad:
        LOG.warning("%s: ignoring entries that are not of the form name=ratio: %s", option, ", ".join(bad))
    return pairs
