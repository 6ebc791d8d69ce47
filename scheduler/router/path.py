"""The partitions in which a call was tried, as noted on the call itself.

An entry is written when the call is sent to a partition, and written again with the reason when that has no
host for it. Other entries on a call are not about partitions, and stay as they are.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

PREFIX = "partition:"

LONGEST_REASON = 160

MOST_SENT = 6
"""How often one partition is sent a call. A scheduler that stops may return it more than once."""


class Stop(NamedTuple):
    """A partition that was sent a call.

    Attributes:
        name: The partition.
        reason: Why it has no host, and who says so; "" if it has not answered.
    """

    name: str
    reason: str = ""


def stops(entries: Sequence[str]) -> list[Stop]:
    """Return the partitions that were sent a call, in order."""
    texts = [entry.removeprefix(PREFIX) for entry in entries if entry.startswith(PREFIX)]
    return [Stop(*text.split(" ", 1)) for text in texts]


def current(entries: Sequence[str]) -> str:
    """Return the partition that a call was sent to last, and that has not answered; "" for none."""
    last = stops(entries)[-1:]
    return last[0].name if last and not last[0].reason else ""


def unanswered(entries: Sequence[str], most_sent: int = MOST_SENT) -> set[str]:
    """Return the partitions that have not answered a call, and were sent it less often than ``most_sent``."""
    return {name for name, times in _times_unanswered(entries).items() if times < most_sent}


def given_up(entries: Sequence[str]) -> set[str]:
    """Return the partitions that have not answered a call, and are not sent it again."""
    return {name for name, times in _times_unanswered(entries).items() if times >= MOST_SENT}


def _times_unanswered(entries: Sequence[str]) -> Counter[str]:
    """Return how often a call was sent to each partition that has not answered it."""
    answering = {stop.name for stop in stops(entries) if stop.reason}
    return Counter(stop.name for stop in stops(entries) if stop.name not in answering)


def sent(entries: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the entries of a call that is sent to a partition."""
    return (*entries, f"{PREFIX}{name}")


def answered(entries: Sequence[str], name: str, reason: str) -> tuple[str, ...]:
    """Return the entries of a call for which a partition has no host."""
    entry = f"{PREFIX}{name} {reason[:LONGEST_REASON]}"
    others = list(entries)
    if current(entries) == name:
        last = max(number for number, each in enumerate(others) if each.startswith(PREFIX))
        others[last] = entry
        return tuple(others)
    return (*others, entry)


def came_back(entries: Sequence[str]) -> bool:
    """Return whether a partition had a call, and one of its schedulers sent it on within the partition."""
    return bool(entries) and current(entries) != "" and not entries[-1].startswith(PREFIX)
