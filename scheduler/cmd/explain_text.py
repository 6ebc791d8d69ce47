"""The documents of berth-explain as lines and tables for a terminal, before control characters are escaped.

A cell of several lines is a tuple of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote_plus

from scheduler.explain.requested import requested_lines

Document = Mapping[str, Any]
Table = tuple[tuple[str, ...], list[tuple[Any, ...]]]

#: Causes that are shown of one stage, and hosts that are named of each.
CAUSES = 3
NAMED = 3


def whole_number(words: str) -> int:
    """Return the value of an argument; raises ``ValueError`` below 0."""
    value = int(words)
    if value < 0:
        raise ValueError(words)
    return value


def positive_integer(words: str) -> int:
    """Return the value of an argument; raises ``ValueError`` below 1."""
    value = int(words)
    if value < 1:
        raise ValueError(words)
    return value


def positive_number(words: str) -> float:
    """Return the value of an argument; raises ``ValueError`` if it is not above 0."""
    value = float(words)
    if not value > 0:
        raise ValueError(words)
    return value


def time_of(answer: Any) -> str:
    """Return the time of the decision that an answer is about; "" if it tells none."""
    return str(answer.get("decision", answer).get("time", "")) if isinstance(answer, dict) else ""


# -- a decision ------------------------------------------------------------------------------------------


def decision_lines(explained: Document) -> list[str]:
    """Return the lines on a decision as a whole."""
    decision = explained["decision"]
    uuids = decision["instances"]
    zone = decision["availability_zone"]
    project = f"project {decision['project_id']}" if decision["project_id"] else "no project"
    source = " of ".join(filter(None, (explained["source"], explained["scheduler"])))
    lines = [
        f"Request {decision['request_id'] or 'without id'}: {decision['kind']} of {_first(uuids, 1)}",
        f"  {project}, {flavor(decision['flavor'])}" + (f", zone {zone}" if zone else ""),
        f"  {decision['time']}, {decision['milliseconds'].get('total', 0):.0f} ms, from the {source}",
        *(f"  {title} {words}" for title, words in requested_lines(decision)),
        *(f"  query {unquote_plus(query)}" for query in decision["queries"]),
        *_candidates(decision["candidates"]),
        *([f"  partition {decision['partition']}"] if decision.get("partition") else []),
        *(f"  note: {note}" for note in decision.get("notes", ())),
    ]
    return [*lines, f"Result: {outcome(decision)}"]


def outcome(decision: Document) -> str:
    """Return what became of a request, in one line."""
    if decision["result"] == "failed":
        return f"no host ({decision['error']['class']}): {decision['summary']}"
    places = [one["host"]["host"] for one in decision["chosen"]]
    return f"scheduled to {_first(places, NAMED)}"


def flavor(values: Document) -> str:
    """Return name and amounts of a flavor."""
    amounts = [
        f"{values[name]} {unit}"
        for name, unit in (("vcpus", "VCPU"), ("memory_mb", "MiB"), ("root_gb", "GiB root disk"))
        if values.get(name) is not None
    ]
    specs = ", ".join(f"{key}={value}" for key, value in sorted(values["extra_specs"].items()))
    return f"flavor {values['name']} ({', '.join(amounts)}{'; ' + specs if specs else ''})"


def _candidates(found: Document) -> Iterator[str]:
    notes = []
    if found["source"] in {"placement", "coalesced"} and found["hosts"]:
        notes.append(f"Placement's answer was {found['age'] * 1000:.0f} ms old")
    if found["requests"] > 1:
        notes.append(f"{found['requests']} requests shared it")
    if found["source"] == "mirror":
        notes.append(f"the mirror was refreshed {found['age']:.1f} s before")
    if found["truncated"]:
        notes.append("a limit may have cut the answer")
    if found.get("relaxed_at"):
        notes.append(f"Placement was asked again at {found['relaxed_at']}")
    if notes:
        yield f"  {'; '.join(notes)}"


def funnel(explained: Document) -> Table:
    """Return the stages of a decision as a table, without those that no host has reached."""
    several = len(explained["decision"]["instances"]) > 1
    rows = [
        (
            _stage_name(stage, several=several),
            "" if stage["start"] is None else stage["start"],
            stage["end"],
            tuple(_causes(stage)),
        )
        for stage in explained["funnel"]
        if stage["start"] != 0
    ]
    return ("Stage", "Before", "After", "Why others are out"), rows


def _stage_name(stage: Document, *, several: bool) -> str:
    return f"{stage['name']} ({stage['instance']})" if several and stage["instance"] else stage["name"]


def _causes(stage: Document) -> Iterator[str]:
    most = len(stage["reasons"]) if stage["stage"] == "candidates" else CAUSES
    for cause in stage["reasons"][:most]:
        yield cause["reason"] + (
            f" ({_first(cause['hosts'], NAMED, cause['count'])})" if cause["hosts"] else ""
        )
    rest = sum(cause["count"] for cause in stage["reasons"][most:])
    if rest:
        yield f"{len(stage['reasons']) - most} other reasons ({rest} hosts)"
    if stage["unasked"]:
        yield f"{stage['unasked']} hosts were not asked for a reason"


def _first(names: Sequence[str], most: int, count: int | None = None) -> str:
    left = (len(names) if count is None else count) - most
    return ", ".join(names[:most]) + (f" and {left} more" if left > 0 else "")


def hosts(explained: Document) -> Table:
    """Return the hosts of a decision as a table."""
    lines = explained["hosts"]
    nodes = any(not _is_named_after(line["node"], line["host"]) for line in lines)
    columns = ("Host", *(("Node",) if nodes else ()), "Cell", "Zone", "Outcome", "Why", "Weight")
    rows = [
        (
            line["host"],
            *((line["node"] or "",) if nodes else ()),
            line["cell"] or "",
            line["zone"] or "",
            line["outcome"],
            _why(line),
            "" if line["total"] is None else f"{line['total']:.4g}",
        )
        for line in lines
    ]
    left = explained["hosts_total"] - len(lines)
    if left > 0:
        rows.append((f"{left} more", *[""] * (len(columns) - 1)))
    return columns, rows


def _is_named_after(node: str | None, host: str) -> bool:
    """Return whether a node's name is that of its host, perhaps with a domain."""
    return node is None or node.partition(".")[0] == host.partition(".")[0]


def _why(line: Document) -> str:
    if line["filter"]:
        return f"{line['filter']}: {line['reason']}" if line["reason"] else line["filter"]
    if line["outcome"] == "claim refused":
        return str(line["reason"])
    return "; ".join(filter(None, (line["reason"], weights(line["weights"]))))


def weights(parts: Iterable[Document]) -> str:
    """Return what each weigher adds to the weight of a host, those that add nothing left out."""
    return ", ".join(f"{one['weigher']} {one['weighted']:.3g}" for one in parts if one["weighted"])


# -- one host --------------------------------------------------------------------------------------------


def host_lines(answer: Document) -> list[str]:
    """Return the lines on a host in a decision."""
    lines = [f"Request {answer['request_id'] or 'without id'}, from {answer['scheduler']}"]
    for node in answer["nodes"]:
        lines.append(
            f"Host {node['host']}, node {node['node'] or 'not known'}, cell {node['cell'] or 'not known'}: "
            f"{node['outcome']}" + (f" ({_why(node)})" if _why(node) else "")
        )
        lines += [
            f"  claim for {event['instance']}, try {event['attempt']}: {event['cause']}; {event['next_step']}"
            for event in node["claims"]
        ]
    return [*lines, answer["note"]] if answer["note"] else lines


def verdicts(answer: Document) -> Table:
    """Return what each filter says of the nodes of a host as a table."""
    rows = [
        (
            node["node"],
            one["filter"],
            one["verdict"] + (" (decisive)" if one["decisive"] else ""),
            one["reason"],
        )
        for node in answer["nodes"]
        for one in node["verdicts"]
    ]
    return ("Node", "Filter", "Verdict", "Reason"), rows


# -- lists -----------------------------------------------------------------------------------------------


def entries(found: Iterable[Document]) -> Table:
    """Return a list of decisions as a table."""
    rows = [
        (
            one["time"][:19] + "Z",
            one["request_id"],
            _first(one["instances"], 1),
            one["flavor"]["name"] or "",
            one["result"],
            one["summary"] or _first(one["hosts"], NAMED),
            f"{one['milliseconds']:.0f}",
        )
        for one in found
    ]
    return ("Time", "Request", "Instances", "Flavor", "Result", "Hosts or reason", "ms"), rows


def narrow_entries(found: Iterable[Document]) -> Table:
    """Return a list of decisions as a table of few columns."""
    rows = [
        (
            (one["request_id"], _first(one["instances"], 1), one["time"][:19] + "Z"),
            f"{one['flavor']['name'] or 'flavor'} {one['result']}: "
            + (one["summary"] or _first(one["hosts"], NAMED)),
        )
        for one in found
    ]
    return ("Request", "Result"), rows
