"""Counts over the comparisons of a shadow: as text, as a document, and as a page."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from oslo_log import log as logging
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from scheduler.logs import count_text
from scheduler.operators.pages import frame
from scheduler.operators.shadow.comparison import MEANINGS, Verdict
from scheduler.operators.shadow.shadow import FILE, MOST_FILES, Compared

LOG = logging.getLogger(f"nova.{__name__}")

#: Differences that are listed, the latest first.
LISTED = 50

#: Verdicts that are no difference.
ALIKE = frozenset({Verdict.SAME, Verdict.EQUAL, Verdict.BOTH_REFUSED})

#: Verdicts for which no reason is known.
UNEXPLAINED = frozenset({Verdict.OTHER, Verdict.NOVA_REFUSED})


class Line(msgspec.Struct, frozen=True):
    """The number of requests with a verdict, and its share of those that were compared."""

    verdict: Verdict
    meaning: str
    count: int
    percent: float


class Report(msgspec.Struct, frozen=True):
    """Counts over comparisons.

    Attributes:
        refused: Requests that nova-scheduler served and Berth refused.
        unexplained: Requests with another outcome for which no reason is known.
        since: The time of the first, in seconds since the epoch.
        until: The time of the last.
        alike_percent: Of those that were compared: the same host, one of equal weight, or none.
        berth_seconds: How long Berth decided: the median.
        nova_seconds: After how long the choice of nova-scheduler was seen: the median.
    """

    requests: int
    compared: int
    refused: int
    unexplained: int
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


def summarize(found: Iterable[Compared]) -> Report:
    """Return the report on comparisons."""
    every = list(found)
    counts = Counter(each.verdict for each in every)
    known = [each for each in every if each.verdict is not Verdict.UNKNOWN]
    share = 100.0 / (len(known) or 1)
    return Report(
        requests=len(every),
        compared=len(known),
        refused=counts[Verdict.BERTH_REFUSED],
        unexplained=sum(counts[verdict] for verdict in UNEXPLAINED),
        since=min((each.time for each in every), default=0.0),
        until=max((each.time for each in every), default=0.0),
        alike_percent=sum(counts[verdict] for verdict in ALIKE) * share,
        lines=[
            Line(
                verdict,
                meaning,
                counts[verdict],
                counts[verdict] * share if verdict is not Verdict.UNKNOWN else 0.0,
            )
            for verdict, meaning in MEANINGS.items()
        ],
        berth_seconds=median([each.seconds for each in known] or [0.0]),
        nova_seconds=median([each.nova_seconds for each in known] or [0.0]),
        differences=[each for each in reversed(known) if each.verdict not in ALIKE][:LISTED],
    )


def headline(report: Report) -> str:
    """Return what decides about a swap, in one sentence."""
    if not report.compared:
        return f"{count_text(report.requests, 'request')}; none was compared yet."
    minutes = (report.until - report.since) / 60
    period = f"{minutes / 60:.1f} h" if minutes >= 60 else f"{minutes:.0f} min"
    return (
        f"{report.refused} refused that nova-scheduler served, {report.unexplained} unexplained, of "
        f"{count_text(report.compared, 'request')} in {period}."
    )


def details(report: Report) -> str:
    """Return the rest in one sentence; "" if nothing was compared."""
    if not report.compared:
        return ""
    return (
        f"{report.alike_percent:.1f} % got the same host or one of equal weight. Decided in "
        f"{report.berth_seconds * 1000:.0f} ms (median); the choice of nova-scheduler was seen after "
        f"{report.nova_seconds:.1f} s."
    )


def text(report: Report) -> Iterator[str]:
    """Yield the lines of the report for a terminal."""
    yield headline(report)
    if found := details(report):
        yield found
    yield ""
    for line in report.lines:
        share = "" if line.verdict is Verdict.UNKNOWN else f"{line.percent:5.1f} %"
        yield f"{line.count:9,}  {share:>7}  {line.meaning}"
    if report.differences:
        yield ""
        yield "Latest differences, Berth / nova; why: berth-explain decision --log DIRECTORY REQUEST"
    for each in report.differences:
        berth = ", ".join(each.berth) or "no host"
        yield f"  {each.request_id}  {each.verdict}: {berth} / {', '.join(each.nova) or 'no host'}"


def metrics(report: Report) -> str:
    """Return the report in the text format of Prometheus."""
    registry = CollectorRegistry()
    gauge: Any = Gauge
    words = "Requests that the shadow compared, by how the decisions compare"
    requests = gauge("berth_shadow_requests", words, ("verdict",), registry=registry)
    for line in report.lines:
        requests.labels(line.verdict).set(line.count)
    words = "Requests that the shadow refused and the running scheduler served"
    gauge("berth_shadow_refused", words, registry=registry).set(report.refused)
    words = "Requests that the shadow and the running scheduler decided otherwise, without a known reason"
    gauge("berth_shadow_unexplained", words, registry=registry).set(report.unexplained)
    return generate_latest(registry).decode()


def page(report: Report) -> str:
    """Return the report as one HTML page that needs nothing else."""
    return frame.render(
        "scheduler.operators.shadow",
        "report.html",
        report=report,
        sentence=f"{headline(report)} {details(report)}".strip(),
        alike=ALIKE,
    )
