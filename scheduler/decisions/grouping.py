"""Why hosts are out, one entry for each reason: reasons that differ in numbers alone are one.

The numbers that differ are given as a range: "last seen 84 s ago" and "last seen 99 s ago" make one entry.
"""

from collections.abc import Iterable
import re

from scheduler.decisions.document import Out

#: Hosts that are named of each reason.
NAMED = 3

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_VALUE = re.compile(rf"(?<![\w.])(?:{_UUID}|-?\d+(?:\.\d+)*)(?![\w])")


def group(reasons: Iterable[tuple[str, str]], most: int = NAMED) -> list[Out]:
    """Return the reasons of (host, reason) pairs, those of most hosts first; each names the first hosts."""
    hosts: dict[tuple[str, ...], list[str]] = {}
    values: dict[tuple[str, ...], list[dict[str, None]]] = {}
    for host, reason in reasons:
        pattern = tuple(_VALUE.split(reason))
        hosts.setdefault(pattern, []).append(host)
        known = values.setdefault(pattern, [{} for _ in pattern[1:]])
        for distinct, value in zip(known, _VALUE.findall(reason), strict=True):
            distinct[value] = None
    groups = [
        Out(_text(pattern, values[pattern]), len(names), list(dict.fromkeys(names))[:most])
        for pattern, names in hosts.items()
    ]
    return sorted(groups, key=lambda out: -out.hosts)


def _text(pattern: tuple[str, ...], values: list[dict[str, None]]) -> str:
    ranges = [*(_range(list(distinct)) for distinct in values), ""]
    return "".join(part for pair in zip(pattern, ranges, strict=True) for part in pair)


def _range(values: list[str]) -> str:
    if len(values) == 1:
        return values[0]
    try:
        ordered = sorted(values, key=float)
    except ValueError:  # a uuid, an address, a version
        return f"{values[0]} and others"
    return f"{ordered[0]} to {ordered[-1]}"
