"""Counts over the entries of a list of decisions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import msgspec

from scheduler.decisions.document import FAILED, seconds_of

Entry = Mapping[str, Any]
"""One decision, as ``berth-explain list`` has it."""

#: Parts of the time for which requests are counted.
PARTS = 48

#: Failures that are named of each cause, the latest first, and causes that are named.
NAMED = 10
MOST_CAUSES = 50

#: Decisions that are listed, the latest first.
LISTED = 50

#: The code of requests that ended by an outage or another error.
ERROR = "error"


class CauseCount(msgspec.Struct, frozen=True):
    """The requests that failed for one cause.

    Attributes:
        code: The code of the cause, or ``error``.
        subject: What it is about: a constraint, a filter, or the class of an error; may be "".
        words: The cause of the latest of them.
        remedy: What ends it, or "".
        count: Their number.
        over_time: Their number in each part of the time.
        latest: The latest of them.
    """

    code: str
    subject: str
    words: str
    remedy: str
    count: int
    over_time: Sequence[int]
    latest: Sequence[Entry]


class Overview(msgspec.Struct, frozen=True):
    """Counts over decisions.

    Attributes:
        since: The begin of the time that is looked at, in seconds since the epoch, and ``until`` its end.
        oldest: When the first of the decisions was made; None if there is none.
        decisions: Their number.
        failed: The number of those without a host.
        milliseconds: The median of their times.
        over_time: Their number in each part of the time.
        failed_over_time: The number of those without a host.
        causes: Why requests failed, the most frequent cause first.
        more_causes: The number of further causes.
        latest: The latest decisions.
    """

    since: float
    until: float
    oldest: float | None
    decisions: int
    failed: int
    milliseconds: float
    over_time: Sequence[int]
    failed_over_time: Sequence[int]
    causes: Sequence[CauseCount]
    more_causes: int
    latest: Sequence[Entry]

    @property
    def is_cut(self) -> bool:
        """Whether no decision is known of the first twentieth of the time."""
        return self.oldest is not None and self.oldest > self.since + (self.until - self.since) / 20

    @property
    def linked(self) -> list[Entry]:
        """The decisions that have a page: those that are named, each once."""
        named = [*self.latest, *(entry for cause in self.causes for entry in cause.latest)]
        return list({name_of(entry): entry for entry in named}.values())


def name_of(entry: Entry) -> str:
    """Return the name by which the document of an entry is found."""
    return str(entry["request_id"] or (entry["instances"] or [""])[0])


def summarize(entries: Iterable[Entry], since: float, until: float) -> Overview:
    """Return counts over decisions.

    Args:
        since: The begin of the time that is looked at, in seconds since the epoch; 0: the first decision.
    """
    ordered = sorted(entries, key=lambda entry: entry["time"], reverse=True)
    oldest = seconds_of(ordered[-1]["time"]) if ordered else None
    begin = since or oldest or until
    failed = [entry for entry in ordered if entry["result"] == FAILED]
    found = _causes(failed, begin, until)
    return Overview(
        since=begin,
        until=until,
        oldest=oldest,
        decisions=len(ordered),
        failed=len(failed),
        milliseconds=median([entry["milliseconds"] for entry in ordered] or [0.0]),
        over_time=_over_time(ordered, begin, until),
        failed_over_time=_over_time(failed, begin, until),
        causes=found[:MOST_CAUSES],
        more_causes=len(found[MOST_CAUSES:]),
        latest=ordered[:LISTED],
    )


def flavors_by_frequency(entries: Iterable[Entry]) -> list[str]:
    """Return the names of the requested flavors, the most frequent first."""
    counts = Counter(name for entry in entries if (name := entry["flavor"]["name"]))
    return sorted(counts, key=lambda name: (-counts[name], name))


def _causes(failed: Sequence[Entry], since: float, until: float) -> list[CauseCount]:
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in failed:
        cause = _cause(entry)
        groups.setdefault((cause["code"], cause["subject"]), []).append(entry)
    return [
        CauseCount(
            **_cause(group[0]),
            count=len(group),
            over_time=_over_time(group, since, until),
            latest=group[:NAMED],
        )
        for group in sorted(groups.values(), key=len, reverse=True)
    ]


def _cause(entry: Entry) -> Mapping[str, str]:
    return entry.get("cause") or {
        "code": ERROR,
        "subject": entry.get("error") or "",
        "words": entry["summary"],
        "remedy": "",
    }


def _over_time(entries: Iterable[Entry], since: float, until: float) -> list[int]:
    counts = [0] * PARTS
    for entry in entries:
        part = int((seconds_of(entry["time"]) - since) / (until - since or 1.0) * PARTS)
        counts[max(0, min(part, PARTS - 1))] += 1
    return counts
