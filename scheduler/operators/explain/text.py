"""The documents of berth-explain as lines and tables for a terminal, before control characters are escaped.

A cell of several lines is a tuple of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import unquote_plus

from scheduler.decisions import rendering
from scheduler.decisions.document import REFUSED, Candidates, Decision
from scheduler.decisions.failure_cause import cause_of
from scheduler.decisions.hosts_now import HostNow
from scheduler.decisions.rendering import NAMED, first
from scheduler.logs import count_text
from scheduler.operators.command.tables import Table
from scheduler.operators.explain.requested import requested_lines

Document = Mapping[str, Any]
#: Causes that are shown of one stage.
CAUSES = 3


# -- a decision ------------------------------------------------------------------------------------------


def decision_lines(decision: Decision, source: str) -> list[str]:
    """Return the lines on a decision as a whole; ``source`` is where it was found."""
    zone = decision.availability_zone
    project = f"project {decision.project_id}" if decision.project_id else "no project"
    milliseconds = decision.milliseconds.get("total", 0)
    return [
        f"Request {decision.request_id or 'without id'}: {decision.kind} of {first(decision.instances, 1)}",
        f"  {project}, flavor {rendering.flavor(decision.flavor)}" + (f", zone {zone}" if zone else ""),
        f"  {decision.time}, {milliseconds:.0f} ms, from the {source}",
        *(f"  {title} {words}" for title, words in requested_lines(decision)),
        *(f"  query {unquote_plus(query)}" for query in decision.queries),
        *_candidates(decision.candidates),
        *([f"  partition {decision.partition}"] if decision.partition else []),
        *(f"  note: {note}" for note in decision.notes),
        f"Result: {outcome(decision)}",
        *_cause(decision),
    ]


def _cause(decision: Decision) -> Iterator[str]:
    if found := cause_of(decision):
        yield f"Cause: {found.words} ({found.code})"
        yield f"Remedy: {found.remedy}"


def outcome(decision: Decision) -> str:
    return rendering.result(decision) + (f": {decision.summary}" if decision.error else "")


def _candidates(found: Candidates) -> Iterator[str]:
    notes = []
    if found.origin == "placement" and found.hosts:
        notes.append(f"Placement's answer was {found.age * 1000:.0f} ms old")
    if found.requests > 1:
        notes.append(f"{found.requests} requests shared it")
    if found.source == "mirror":
        notes.append(f"the mirror was refreshed {found.age:.1f} s before")
    if found.truncated:
        notes.append("a limit may have cut the answer")
    if notes:
        yield f"  {'; '.join(notes)}"


def funnel(decision: Decision) -> Table:
    several = len(decision.instances) > 1
    rows = [
        (
            f"{stage.name} ({stage.instance})" if several and stage.instance else stage.name,
            "" if stage.start is None else stage.start,
            stage.end,
            tuple(_causes(stage)),
        )
        for stage in rendering.funnel(decision)
        if stage.start != 0
    ]
    return ("Stage", "Before", "After", "Why others are out"), rows


def _causes(stage: rendering.Stage) -> Iterator[str]:
    most = len(stage.causes) if stage.kind == "candidates" else CAUSES
    for cause in stage.causes[:most]:
        yield cause.reason + (f" ({first(cause.hosts, NAMED, cause.number)})" if cause.hosts else "")
    if rest := sum(cause.number for cause in stage.causes[most:]):
        yield f"{count_text(len(stage.causes) - most, 'other reason')} ({count_text(rest, 'host')})"
    if stage.unexplained:
        yield f"{count_text(stage.unexplained, 'more host')}, reason not computed"


def hosts(decision: Decision, most: int | None) -> Table:
    """Return the first hosts of a decision as a table; ``most`` None: all that are named."""
    lines = list(islice(rendering.hosts(decision), most))
    nodes = any(line.node.partition(".")[0] != line.host.partition(".")[0] for line in lines)
    columns = ("Host", *(("Node",) if nodes else ()), "Cell", "Zone", "Outcome", "Why", "Weight")
    rows = [
        (
            line.host,
            *((line.node,) if nodes else ()),
            line.cell,
            line.zone,
            line.outcome,
            _why(line),
            "" if line.total is None else f"{line.total:.4g}",
        )
        for line in lines
    ]
    left = rendering.hosts_total(decision) - len(lines)
    if left > 0 and lines:
        rows.append((f"{left} more", *[""] * (len(columns) - 1)))
    return columns, rows


def _why(line: rendering.Host) -> str:
    is_weighed = not line.filter and line.outcome != REFUSED
    return "; ".join(filter(None, (line.why, weights(line.weights) if is_weighed else "")))


def weights(parts: Iterable[tuple[str, float]]) -> str:
    """Return what each weigher adds to the weight of a host, those that add nothing left out."""
    return ", ".join(f"{weigher} {added:.3g}" for weigher, added in parts if added)


# -- one host --------------------------------------------------------------------------------------------


def host_lines(decision: Decision, found: Iterable[rendering.Host], now: HostNow | None) -> Iterator[str]:
    """Yield the lines on a host: what the decision says of it, and what is said as of now."""
    for line in found:
        why = _why(line)
        yield f"Host {line.host}, node {line.node}, cell {line.cell}: {line.outcome}" + (
            f" ({why})" if why else ""
        )
        for uuid, events in decision.claims.items():
            for event in events:
                if event.host == line.host:
                    yield f"  claim for {uuid}, try {event.attempt}: {event.cause}; {event.next_step}"
    if now is None:
        return
    for node in now.nodes:
        offered = f"Placement does not offer it: {node.unoffered}" if node.unoffered else ""
        if node.asked and not offered:
            offered = "Placement offers it"
        yield (
            f"Host {node.host}, node {node.node}, cell {node.cell}, zone {node.zone}, "
            f"as of now ({now.time}), not of the decision: "
            f"{'; '.join(filter(None, (node.excluded, offered)))}"
        )


def verdicts(pairs: Iterable[tuple[str, Iterable[rendering.FilterVerdict]]]) -> Table:
    rows = [
        (node, one.filter, one.verdict + (" (decisive)" if one.decisive else ""), one.reason)
        for node, found in pairs
        for one in found
    ]
    return ("Node", "Filter", "Verdict", "Reason"), rows


# -- lists -----------------------------------------------------------------------------------------------


def entries(found: Iterable[Document]) -> Table:
    rows = [
        (
            one["time"][:19] + "Z",
            one["request_id"],
            first(one["instances"], 1),
            one["flavor"]["name"] or "",
            one["result"],
            one["summary"] or first(one["hosts"], NAMED),
            f"{one['milliseconds']:.0f}",
        )
        for one in found
    ]
    return ("Time", "Request", "Instances", "Flavor", "Result", "Hosts or reason", "ms"), rows


def narrow_entries(found: Iterable[Document]) -> Table:
    rows = [
        (
            (one["request_id"], first(one["instances"], 1), one["time"][:19] + "Z"),
            f"{one['flavor']['name'] or 'flavor'} {one['result']}: "
            + (one["summary"] or first(one["hosts"], NAMED)),
        )
        for one in found
    ]
    return ("Request", "Result"), rows
