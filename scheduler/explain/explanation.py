"""A decision explained: what became of the hosts, stage by stage and one by one, as plain values.

``berth-explain`` shows these documents and the page renders them; doc/source/explain.rst has the schema. A
decision that is only in the decision log is explained by the same functions, as far as its line tells.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from scheduler.explain.document import (
    Rejections,
    document,
    event_values,
    rejections_of,
    relaxed_texts,
    time_text,
    weight_values,
)
from scheduler.explain.record import DecisionRecord, HostData, RankedHost
from scheduler.explain.replay import PIECE, Replay, no_pause
from scheduler.explain.unoffered import DISABLED, Unoffered
from scheduler.filters.causes import group
from scheduler.hosts.rows import HostRow
from scheduler.hosts.table import HostTable

Document = dict[str, Any]

#: The version of the schema; it grows if a key changes its meaning or goes away.
VERSION = 1

CHOSEN, ALTERNATE, PASSED = "chosen", "alternate", "passed"
REFUSED, REJECTED, NOT_ALLOWED = "claim refused", "rejected", "excluded by the request"

#: What names the stage before the hosts are known, by the source of the candidates.
SOURCES = {
    "placement": "Placement",
    "coalesced": "Placement, one answer for several requests",
    "mirror": "Mirror of Placement",
    "table": "Host table",
    "held": "Earlier delivery",
}

#: Where a decision comes from that is explained.
MEMORY, LOG_FILE = "memory", "log"


@dataclass(frozen=True)
class Names:
    """The names of what a table has numbers or UUIDs for.

    Attributes:
        cells: The names of the cells by UUID.
        default_zone: The availability zone of hosts that no aggregate puts in one.
    """

    cells: Mapping[str, str | None] = field(default_factory=dict)
    default_zone: str = "nova"


def explain(
    record: DecisionRecord,
    names: Names,
    most_hosts: int,
    *,
    source: str = MEMORY,
    pause: Callable[[], None] = no_pause,
) -> Document:
    """Return the explanation of a record that is complete.

    Args:
        record: The record.
        names: The names of cells and of the default zone.
        most_hosts: Hosts that are listed; those that matter most come first.
        source: Where the decision comes from.
        pause: Called now and then, so that other threads get the processor.
    """
    data = record.hosts
    rejections = None if data is None else rejections_of(Replay(data, pause), data)
    explained = explain_document(document(record, rejections), source)
    if data is not None and rejections is not None:
        lines = _Lines(record, data, rejections, names)
        explained["hosts"] = list(_paced(map(lines.line, lines.order[:most_hosts]), pause))
        explained["hosts_total"] = len(lines.order)
        explained["hosts_complete"] = True
    return explained


def explain_document(decision: Document, source: str) -> Document:
    """Return the explanation of a decision of which there are only the values of ``document``."""
    hosts = _named_hosts(decision)
    return {
        "version": VERSION,
        "source": source,
        "scheduler": None,
        "decision": decision,
        "funnel": list(funnel(decision)),
        "hosts": hosts,
        "hosts_total": len(hosts),
        "hosts_complete": False,
    }


def _paced(items: Iterable[Document], pause: Callable[[], None]) -> Iterator[Document]:
    for number, item in enumerate(items, 1):
        yield item
        if not number % PIECE:
            pause()


# -- stages ----------------------------------------------------------------------------------------------


def funnel(decision: Mapping[str, Any]) -> Iterator[Document]:
    """Yield the stages of a decision: how many hosts entered and left each, and why others did not."""
    found = decision["candidates"]
    if found["source"]:
        name = SOURCES.get(found["source"], found["source"])
        disabled = found.get("disabled", {"count": 0, "hosts": []})
        reasons = [
            *(_cause(text, 0) for text in (found["reason"], *relaxed_texts(found))),
            _cause(DISABLED if disabled["count"] else "", **disabled),
        ]
        yield _stage("candidates", name, None, found["hosts"], reasons)
    if found["known"] is not None:
        reasons = [_cause("unknown, or in a cell that is disabled, away or not wanted", 0)]
        yield _stage("cells", "Known in cells", found["hosts"], found["known"], reasons)
        excluded = decision["excluded"]
        yield _stage("request", "Allowed by request", found["known"], found["allowed"], excluded)
    for one in decision["filters"]:
        reasons = list(_causes(one["rejected"]))
        unasked = one["start"] - one["end"] - one["asked"]
        yield _stage(
            "filter",
            one["filter"],
            one["start"],
            one["end"],
            reasons,
            instance=one["instance"],
            unasked=unasked,
        )
    if decision["claims"]:
        yield _claims(decision["claims"])


def _stage(
    kind: str,
    name: str,
    start: int | None,
    end: int,
    reasons: Sequence[Document] = (),
    *,
    instance: str | None = None,
    unasked: int = 0,
) -> Document:
    lost = start is None or end < start
    return {
        "stage": kind,
        "name": name,
        "instance": instance,
        "start": start,
        "end": end,
        "reasons": [each for each in reasons if lost and each["reason"]],
        "unasked": unasked,
    }


def _cause(reason: str, count: int, hosts: Iterable[str] = ()) -> Document:
    return {"reason": reason, "count": count, "hosts": list(hosts)}


def _causes(rejected: Iterable[Mapping[str, Any]]) -> Iterator[Document]:
    """Yield the causes: reasons that differ in numbers alone are one, with the range of the numbers."""
    pairs = chain.from_iterable(
        ((name, one["reason"]) for name in _padded(one["hosts"], one["count"])) for one in rejected
    )
    for cause in group(pairs):
        yield _cause(cause.reason, cause.count, (name for name in cause.names if name))


def _padded(names: Sequence[str], count: int) -> Iterator[str]:
    return chain(names[:count], [""] * (count - len(names)))


def _claims(claims: Mapping[str, Sequence[Mapping[str, Any]]]) -> Document:
    events = [event for each in claims.values() for event in each]
    refused = [event for event in events if event["ended"] and not event["granted"]]
    granted = sum(1 for event in events if event["granted"])
    causes = group((event["host"], event["cause"]) for event in refused)
    reasons = [_cause(cause.reason, cause.count, dict.fromkeys(cause.names)) for cause in causes]
    return _stage("claims", "Claims in Placement", granted + len(refused), granted, reasons)


# -- hosts -----------------------------------------------------------------------------------------------


def _named_hosts(decision: Mapping[str, Any]) -> list[Document]:
    """Return the hosts that the values of a decision name."""
    lines: dict[tuple[str, str], Document] = {}
    for chosen in decision["chosen"]:
        place = chosen["host"]
        lines[place["host"], place["node"]] = _line(place["host"], place["node"], CHOSEN)
        for other in chosen["alternates"]:
            lines.setdefault((other["host"], other["node"]), _line(other["host"], other["node"], ALTERNATE))
    for one in decision["best"]:
        line = lines.setdefault((one["host"], one["node"]), _line(one["host"], one["node"], PASSED))
        line |= {"total": one["total"], "weights": one["weights"]}
    rejected = [
        _line(host, None, REJECTED, one["filter"], why["reason"])
        for one in decision["filters"]
        for why in one["rejected"]
        for host in why["hosts"]
    ]
    return [*lines.values(), *rejected]


def _line(host: str, node: str | None, outcome: str, rule: str | None = None, reason: str = "") -> Document:
    return {
        "host": host,
        "node": node,
        "uuid": None,
        "cell": None,
        "zone": None,
        "outcome": outcome,
        "filter": rule,
        "reason": reason,
        "total": None,
        "weights": [],
    }


class _Lines:
    """The hosts of a record, those that matter most first.

    Attributes:
        order: Their positions: chosen ones, alternates, refused ones and the best, then other hosts that
            passed, then those that filters turned down, the last filter first, then those that the request
            excludes.
    """

    def __init__(self, record: DecisionRecord, data: HostData, rejections: Rejections, names: Names) -> None:
        self._data = data
        self._names = names
        self._best = {(one.host, one.node): one for one in record.best}
        self._rejected = {
            position: (each.step.rule.name, each.reasons[number] if number < len(each.reasons) else "")
            for steps in rejections
            for each in steps
            for number, position in enumerate(each.positions.tolist())
        }
        self._special = _special_outcomes(record, data)
        self._excluded = {
            position: reason for reason, positions in data.excluded for position in positions.tolist()
        }
        self.order = self._ordered()

    def _ordered(self) -> list[int]:
        data = self._data
        out = self._rejected.keys() | self._excluded.keys()
        passed = [position for position in range(len(data.rows)) if position not in out]
        first = {name: number for number, name in enumerate(dict.fromkeys([*self._special, *self._best]))}
        last = len(first)
        passed.sort(key=lambda position: first.get(self._place(position), last))
        return [*passed, *reversed(self._rejected), *sorted(self._excluded)]

    def _row(self, position: int) -> HostRow:
        return self._data.table.rows[int(self._data.rows[position])]

    def _place(self, position: int) -> tuple[str, str]:
        row = self._row(position)
        return row.host, row.nodename

    def line(self, position: int) -> Document:
        """Return what became of a host."""
        row = self._row(position)
        place = row.host, row.nodename
        rule, reason = self._rejected.get(position, (None, ""))
        outcome = REJECTED if rule else PASSED
        if position in self._excluded:
            outcome, reason = NOT_ALLOWED, self._excluded[position]
        # a chosen host may have been turned down for a later instance
        outcome, why = self._special.get(place, (outcome, ""))
        return {
            **_line(row.host, row.nodename, outcome, rule, reason or why),
            **place_values(self._data.table, int(self._data.rows[position]), self._names),
            **_weight(self._best.get(place)),
        }


def _special_outcomes(record: DecisionRecord, data: HostData) -> dict[tuple[str, str], tuple[str, str]]:
    """Return by host and node the outcome and the reason of chosen, alternate and refused hosts."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for chosen in record.chosen:
        count = sum(each.host == chosen.host for each in record.chosen)
        found[chosen.host] = CHOSEN, f"for {count} instances" if count > 1 else ""
    for chosen in record.chosen:
        for place in chosen.alternates:
            found.setdefault(place, (ALTERNATE, ""))
    refused = {
        event.host: event.cause
        for events in record.claims.values()
        for event in events
        if event.ended and not event.granted
    }
    rows = data.table.rows
    for row in data.rows.tolist() if refused else ():
        if rows[row].host in refused:
            place = rows[row].host, rows[row].nodename
            found.setdefault(place, (REFUSED, refused[rows[row].host]))
    return found


def place_values(table: HostTable, number: int, names: Names) -> Document:
    """Return UUID, cell and zone of the host in a row of a table."""
    row = table.rows[number]
    return {
        "uuid": row.uuid,
        "cell": names.cells.get(row.cell_uuid) or row.cell_uuid,
        "zone": table.coded["aggregates"][number].availability_zone(names.default_zone),
    }


def _weight(best: RankedHost | None) -> Document:
    return {} if best is None else {"total": best.total, "weights": weight_values(best)}


# -- one host --------------------------------------------------------------------------------------------

DROPPED = "What explains single hosts is no longer kept of this decision; this is all that is known"


def explain_host(record: DecisionRecord, name: str, names: Names) -> Document:
    """Return what each filter says of the compute nodes of a host, by host, node name or UUID."""
    data = record.hosts
    if data is None:
        return explain_host_of(explain_document(document(record), MEMORY), name)
    replay = Replay(data)
    lines = _Lines(record, data, rejections_of(replay, data, 0), names)
    nodes = [
        {
            **lines.line(position),
            "verdicts": [
                {
                    "filter": one.filter,
                    "verdict": one.verdict,
                    "reason": one.reason,
                    "decisive": one.decisive,
                }
                for one in replay.verdicts(position)
            ],
            "claims": _claims_on(record, replay.row(position).host),
        }
        for position in replay.positions_of(name)
    ]
    for node in nodes:
        decisive = next((one["reason"] for one in node["verdicts"] if one["decisive"]), "")
        node["reason"] = node["reason"] or decisive
    note = "" if nodes else _why_absent(record, data, name)
    return _host_document(record.request_id, time_text(record.started_at), name, nodes, note)


def explain_host_of(explained: Mapping[str, Any], name: str) -> Document:
    """Return what an explanation without data of single hosts tells of a host."""
    nodes = [
        {**line, "verdicts": [], "claims": []}
        for line in explained["hosts"]
        if name in (line["host"], line["node"], line["uuid"])
    ]
    decision = explained["decision"]
    return _host_document(decision["request_id"], decision["time"], name, nodes, DROPPED)


def _host_document(request_id: str, time: str, name: str, nodes: Sequence[Document], note: str) -> Document:
    return {
        "version": VERSION,
        "scheduler": None,
        "time": time,
        "request_id": request_id,
        "host": name,
        "nodes": list(nodes),
        "note": note,
    }


def _claims_on(record: DecisionRecord, host: str) -> list[Document]:
    return [
        {"instance": uuid, **event_values(event)}
        for uuid, events in record.claims.items()
        for event in events
        if event.host == host
    ]


def _why_absent(record: DecisionRecord, data: HostData, name: str) -> str:
    rows = data.table.rows
    found = [number for number, row in enumerate(rows) if name in (row.host, row.nodename, row.uuid)]
    if not found:
        return f"No compute node of an enabled cell had the host, node name or UUID {name}"
    if record.candidates.asked == "placement":
        unoffered = Unoffered(data.table, data.request)
        reasons = list(dict.fromkeys(reason for row in found for reason in unoffered.reasons(row)))
        known = "; ".join(reasons) or "its inventory or traits do not suit the query"
        return f"Placement did not offer {name}: {known}"
    return f"{name} was not among the candidates, which came from the {record.candidates.name}"
