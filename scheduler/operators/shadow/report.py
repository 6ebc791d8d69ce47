"""Counts over the comparisons of a shadow, and what is shown of them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

import msgspec
from oslo_log import log as logging

from scheduler.logs import count_text
from scheduler.operators.shadow.decisions import ShadowVerdict
from scheduler.operators.shadow.shadow import FILE, MOST_FILES, Compared
from scheduler.operators.shown.files import Measured
from scheduler.operators.shown.shown import BAD, GOOD, Bar, Cell, Columns, Head, Shown, table

LOG = logging.getLogger(f"nova.{__name__}")

#: Differences that are listed, the latest first.
LISTED = 50

#: Verdicts that are no difference.
ALIKE = frozenset({ShadowVerdict.SAME, ShadowVerdict.EQUAL, ShadowVerdict.BOTH_REFUSED})


class Line(msgspec.Struct, frozen=True):
    """The number of requests with a verdict, and its share of those that were compared."""

    verdict: ShadowVerdict
    meaning: str
    count: int
    percent: float

    @property
    def share(self) -> float | None:
        """The rounded share; None of requests that were not compared."""
        return None if self.verdict is ShadowVerdict.UNKNOWN else round(self.percent, 1)


class ShadowReport(msgspec.Struct, frozen=True):
    """Counts over comparisons.

    Attributes:
        since: The time of the first, in seconds since the epoch.
        until: The time of the last.
        alike_percent: Of those that were compared: the same host, one of equal weight, or none.
        berth_seconds: How long Berth decided: the median.
        nova_seconds: After how long the choice of nova-scheduler was seen: the median.
    """

    requests: int
    compared: int
    since: float
    until: float
    alike_percent: float
    lines: Sequence[Line]
    berth_seconds: float
    nova_seconds: float
    differences: Sequence[Compared]


def read(directory: Path, since: float = 0.0) -> Iterator[Compared]:
    """Yield the comparisons of a directory that were written after ``since``, the oldest first."""
    decoder = msgspec.json.Decoder(Compared)
    names = [f"{FILE}.{number}" for number in range(MOST_FILES, 0, -1)] + [FILE]
    for path in (directory / name for name in names):
        if not path.exists():
            continue
        with path.open("rb") as lines:
            for line in lines:
                try:
                    compared = decoder.decode(line)
                except msgspec.DecodeError:
                    LOG.warning("Skipped an unreadable line of %s", path)
                    continue
                if compared.time >= since:
                    yield compared


def summarize(found: Iterable[Compared]) -> ShadowReport:
    """Return the report on comparisons."""
    every = list(found)
    counts = Counter(each.verdict for each in every)
    known = [each for each in every if each.verdict is not ShadowVerdict.UNKNOWN]
    share = 100.0 / (len(known) or 1)
    return ShadowReport(
        requests=len(every),
        compared=len(known),
        since=min((each.time for each in every), default=0.0),
        until=max((each.time for each in every), default=0.0),
        alike_percent=sum(counts[verdict] for verdict in ALIKE) * share,
        lines=[
            Line(each, each.meaning, counts[each], counts[each] * share * (each is not ShadowVerdict.UNKNOWN))
            for each in ShadowVerdict
        ],
        berth_seconds=median([each.seconds for each in known] or [0.0]),
        nova_seconds=median([each.nova_seconds for each in known] or [0.0]),
        differences=[each for each in reversed(known) if each.verdict not in ALIKE][:LISTED],
    )


def shown(report: ShadowReport, time: str) -> Shown:
    """Return what is shown of a report. ``time``: when it was made, in ISO format."""
    counts = {line.verdict: line.count for line in report.lines}
    refused, other = counts[ShadowVerdict.BERTH_REFUSED], counts[ShadowVerdict.OTHER]
    look = "" if not report.compared else BAD if refused else GOOD if not other else ""
    head = Head("Berth in the shadow of nova-scheduler", sentence(report), look, time)
    outcomes = table(
        report.lines,
        {"Requests": "count", "Share, %": "share", "Picture": _bar, "Outcome": "meaning"},
        "Outcomes",
        pictures=("Picture",),
        legend=(("alike", "no difference"), ("otherwise", "a difference")),
        looks={number: "folded" for number, line in enumerate(report.lines) if not line.count},
    )
    columns: Columns = {
        "Request": "request_id",
        "Berth": lambda one: ", ".join(one.berth) or one.refusal or "no host",
        "nova-scheduler": lambda one: ", ".join(one.nova) or "no host",
        "Difference": lambda one: str(one.verdict),
    }
    note = "Why: `berth-explain decision --log DIRECTORY REQUEST`, with the decision log of the shadow."
    differences = table(report.differences, columns, "Latest differences", note=note, searched=True)
    parts = [outcomes, differences] if report.differences else [outcomes]
    return Shown(report, head, parts, status=0 if report.requests else 1)


def _bar(line: Line) -> Cell:
    if line.share is None:
        return ""
    return Bar(0, line.percent, f"{line.share} %", "alike" if line.verdict in ALIKE else "otherwise")


def metrics(report: ShadowReport) -> list[Measured]:
    counts = {line.verdict: line.count for line in report.lines}
    words = "Requests that the shadow compared, by how the decisions compare"
    refused = "Requests that the shadow refused and the running scheduler served"
    unexplained = "Requests that got another host from the shadow, without a known reason"
    return [
        Measured("berth_shadow_requests", words, ("verdict",), {(name,): counts[name] for name in counts}),
        Measured("berth_shadow_refused", refused, (), {(): counts[ShadowVerdict.BERTH_REFUSED]}),
        Measured("berth_shadow_unexplained", unexplained, (), {(): counts[ShadowVerdict.OTHER]}),
    ]


def sentence(report: ShadowReport) -> str:
    """Return the report in one sentence, what matters most first."""
    if not report.compared:
        return f"{count_text(report.requests, 'request')}; none was compared yet."
    lines = {line.verdict: line for line in report.lines}
    minutes = (report.until - report.since) / 60
    period = f"{minutes / 60:.1f} h" if minutes >= 60 else f"{minutes:.0f} min"
    alike = report.alike_percent
    refused, other = (
        lines[one].count or "none" for one in (ShadowVerdict.BERTH_REFUSED, ShadowVerdict.OTHER)
    )
    unreported, changed = (lines[one].percent for one in (ShadowVerdict.UNREPORTED, ShadowVerdict.CHANGED))
    return (
        f"Of {report.compared:,} requests in {period}: {refused} refused that nova-scheduler served, {other} "
        f"unexplained; {alike:.1f} % the same or of equal weight, {unreported:.1f} % another by placements "
        f"that no compute has reported yet, {changed:.1f} % by hosts that changed meanwhile; decided in "
        f"{report.berth_seconds * 1000:.0f} ms (median), where the choice of nova-scheduler was seen after "
        f"{report.nova_seconds:.1f} s."
    )
