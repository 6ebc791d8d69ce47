"""Why hosts were rejected, one line for each cause: reasons that differ in numbers alone are one cause.

The numbers that differ are given as a range: "last seen 84 s ago" and "last seen 99 s ago" make one line.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
import re

# Hosts that are named of each cause.
SHOWN = 3

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_VALUE = re.compile(rf"(?<![\w.])(?:{_UUID}|-?\d+(?:\.\d+)*)(?![\w])")


@dataclass
class CommonReason:
    """Hosts that one filter rejected for the same reason.

    Attributes:
        pattern: The reason without its values.
        values: For each value of the reason: what the hosts have, each once, in order of the hosts.
        names: The first of them.
    """

    pattern: tuple[str, ...]
    values: list[dict[str, None]]
    count: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, host: str, values: Iterable[str], most: int) -> None:
        self.count += 1
        if len(self.names) < most:
            self.names.append(host)
        for known, value in zip(self.values, values, strict=True):
            known[value] = None

    @property
    def reason(self) -> str:
        """The reason, with a range for each value that differs from host to host."""
        texts = [*(_range(list(known)) for known in self.values), ""]
        return "".join(part for pair in zip(self.pattern, texts, strict=True) for part in pair)

    def __str__(self) -> str:
        names = ", ".join(self.names)
        hosts = names if self.count <= SHOWN else f"{self.count} hosts, such as {names}"
        return f"{self.reason} ({hosts})"


def group(reasons: Iterable[tuple[str, str]], names: int = SHOWN) -> list[CommonReason]:
    """Return the causes of (host, reason) pairs, those of most hosts first; each with some names."""
    found: dict[tuple[str, ...], CommonReason] = {}
    for host, reason in reasons:
        pattern, values = tuple(_VALUE.split(reason)), _VALUE.findall(reason)
        if pattern not in found:
            found[pattern] = CommonReason(pattern, [{} for _ in values])
        found[pattern].add(host, values, names)
    return sorted(found.values(), key=lambda cause: -cause.count)


def _range(values: list[str]) -> str:
    if len(values) == 1:
        return values[0]
    try:
        ordered = sorted(values, key=float)
    except ValueError:  # a uuid, an address, a version
        return f"{values[0]} and others"
    return f"{ordered[0]} to {ordered[-1]}"
