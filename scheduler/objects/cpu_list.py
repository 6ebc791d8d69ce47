"""The syntax of CPU lists: ``0-3,^2,8``."""

from scheduler.objects import base

_MOST_CPUS = 1 << 16


def parse_cpu_list(text):
    """The set of CPU numbers that a list names: numbers, ranges, and exclusions marked with ``^``.

    Raises ``InvalidField`` if an element is neither, or a range runs backwards.
    """
    wanted, unwanted = set(), set()
    for element in str(text).split(","):
        element = element.strip()  # noqa: PLW2901 - the same element, cleaned
        if element.startswith("^"):
            unwanted |= _element(element[1:])
        elif element:
            wanted |= _element(element)
    return wanted - unwanted


def _element(text):
    first, dash, last = text.partition("-")
    try:
        start = int(first)
        end = int(last) if dash else start
    except ValueError:
        raise base.InvalidField("CPU list", f"{text!r} is no number and no range") from None
    if not 0 <= start <= end < _MOST_CPUS:
        raise base.InvalidField("CPU list", f"{text!r} is no range of CPUs")
    return set(range(start, end + 1))
