"""A decision as it is shown: request and result, the stages, the weights, the claims and the hosts."""

from collections.abc import Iterator, Mapping
from itertools import groupby, islice
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

from scheduler.decisions import rendering
from scheduler.decisions.document import CHOSEN, REFUSED, Candidates, Decision
from scheduler.decisions.failure_cause import cause_of
from scheduler.decisions.rendering import NAMED
from scheduler.logs import count_text
from scheduler.operators.explain.requested import requested_lines
from scheduler.operators.explain.weights import weights
from scheduler.operators.shown.shown import (
    BAD,
    GOOD,
    Bar,
    Cell,
    Fact,
    Folded,
    Head,
    Joined,
    Link,
    Part,
    Saying,
    Shown,
    Table,
    Terms,
    Words,
    some,
)

#: Causes of one stage that are not folded.
CAUSES = 3

#: The width of the narrowest visible bar.
NARROWEST = 0.4

NO_LINKS: Mapping[str, str] = {}


def shown(
    decision: Decision,
    source: str,
    document: Any,
    most_hosts: int | None = None,
    links: Mapping[str, str] = NO_LINKS,
    home: Link | None = None,
) -> Shown:
    """Return what is shown of a decision.

    Args:
        source: Where it was found.
        most_hosts: Maximum number of hosts in the table; None: all that are named.
        links: The addresses of hosts.
        home: The list of decisions.
    """
    return Shown(document, head(decision, source, home), parts(decision, most_hosts, links))


# -- head ------------------------------------------------------------------------------------------------


def head(decision: Decision, source: str, home: Link | None = None) -> Head:
    result = rendering.result(decision)
    return Head(
        title=result[:1].upper() + result[1:],
        subject=f"Request {decision.request_id or 'without id'}: {decision.kind} of "
        f"{rendering.first(decision.instances, 1)}",
        look=BAD if decision.error else GOOD,
        time=decision.time,
        facts=list(_facts(decision, source)),
        sayings=list(_sayings(decision)),
        home=home,
    )


def _facts(decision: Decision, source: str) -> Iterator[Fact]:
    yield Fact("project", decision.project_id or "none")
    if len(decision.instances) > 1:
        yield Fact("instances", some(decision.instances, NAMED))
    yield Fact("flavor", rendering.flavor(decision.flavor))
    if decision.availability_zone:
        yield Fact("zone", decision.availability_zone)
    yield from (Fact(*each) for each in requested_lines(decision))
    for query in decision.queries:
        yield Fact("query", Terms(unquote_plus(query), list(query_terms(query))))
    if decision.partition:
        yield Fact("partition", decision.partition)
    yield from (Fact("note:", note) for note in decision.notes)
    milliseconds = f"{decision.milliseconds.get('total', 0):.0f} ms"
    yield Fact(
        "decided",
        "; ".join((f"{decision.time}, {milliseconds}, from the {source}", *_candidates(decision.candidates))),
    )


def query_terms(query: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the parameters of a query for Placement, and their values; the amounts one by one."""
    for name, value in parse_qsl(query, keep_blank_values=True):
        is_list = name.startswith(("resources", "required", "root_required"))
        yield name, value.split(",") if is_list else [value]


def _candidates(found: Candidates) -> Iterator[str]:
    if found.origin == "placement" and found.hosts:
        yield f"Placement's answer was {found.age * 1000:.0f} ms old"
    if found.requests > 1:
        yield f"{found.requests} requests shared it"
    if found.source == "mirror":
        yield f"the mirror was refreshed {found.age:.1f} s before"
    if found.truncated:
        yield "a limit may have cut the answer"


def _sayings(decision: Decision) -> Iterator[Saying]:
    summary = f": {decision.summary}" if decision.error else ""
    yield Saying(rendering.result(decision) + summary, "Result")
    if found := cause_of(decision):
        yield Saying(f"{found.words} ({found.code})", "Cause")
        yield Saying(found.remedy, "Remedy")


# -- pictures and tables ---------------------------------------------------------------------------------


def parts(decision: Decision, most_hosts: int | None, links: Mapping[str, str] = NO_LINKS) -> list[Part]:
    """Return the pictures and tables of a decision; the last one has the hosts."""
    chosen = [_chosen(decision, links)] if decision.chosen and not decision.error else []
    return [*chosen, *reasons(decision, most_hosts, links)]


def reasons(decision: Decision, most_hosts: int | None, links: Mapping[str, str] = NO_LINKS) -> list[Part]:
    """Return the same without the chosen hosts."""
    found: list[Part] = [funnel(decision, links)]
    named = list(rendering.hosts(decision))
    if weighed := weights(named, links):
        found.append(weighed)
    if decision.claims:
        found.append(_claims(decision, links))
    return [*found, hosts(decision, most_hosts, links)]


def _link(name: str, links: Mapping[str, str]) -> Link:
    return Link(name, links.get(name, ""))


def _chosen(decision: Decision, links: Mapping[str, str]) -> Table:
    rows = [
        (
            one.instance,
            _link(one.host.host, links),
            Joined([_link(each.host, links) for each in one.alternates]),
        )
        for one in decision.chosen
    ]
    return Table(
        ("Instance", "Host", "Alternates"), rows, "Chosen hosts",
        looks=dict.fromkeys(range(len(rows)), CHOSEN), only_on_page=True,
    )  # fmt: skip


def funnel(decision: Decision, links: Mapping[str, str] = NO_LINKS) -> Table:
    """Return the stages; several that rejected no host are one row."""
    stages = [stage for stage in rendering.funnel(decision) if stage.start != 0]
    counts = [max(_entered(stage), stage.end) for stage in stages if stage.kind != "claims"]
    most = max(counts, default=0) or 1
    failed = decision.error is not None
    decided = next((stage for stage in stages if failed and not stage.end), None)
    rows, looks = list[tuple[Cell, ...]](), dict[int, str]()
    for idle, group in groupby(stages, _is_idle):
        found = list(group)
        if idle and len(found) > 1:
            looks[len(rows)] = "folded"
            names = ", ".join(dict.fromkeys(stage.name for stage in found))
            label: Words = f"{len(found)} stages"
            rows.append(_stage(label, found[0], most, (f"none by {names}",)))
            continue
        for stage in found:
            if stage is decided:
                looks[len(rows)] = "deciding"
            rows.append(_stage(_name(decision, stage), stage, most, tuple(_causes(stage, links))))
    columns = ("Stage", "Before", "After", "Hosts", "Why others are out")
    return Table(
        columns, rows, "Hosts, stage by stage", numbers=("Before", "After"), pictures=("Hosts",), looks=looks
    )


def _is_idle(stage: rendering.Stage) -> bool:
    return stage.kind not in {"candidates", "claims"} and stage.start == stage.end


def _name(decision: Decision, stage: rendering.Stage) -> str:
    if len(decision.instances) == 1 or stage.instance not in decision.instances:
        return stage.name
    number = decision.instances.index(stage.instance) + 1
    return f"{stage.name} (instance {number} of {len(decision.instances)})"


def _stage(name: Words, stage: rendering.Stage, most: int, causes: tuple[Words, ...]) -> tuple[Any, ...]:
    words = f"{_entered(stage)} hosts before, {stage.end} after"
    bar = Bar(_width(_entered(stage) / most), _width(stage.end / most), words)
    return (
        name,
        "" if stage.start is None else stage.start,
        stage.end,
        "" if stage.kind == "claims" else bar,
        causes,
    )


def _entered(stage: rendering.Stage) -> int:
    return stage.end if stage.start is None else stage.start


def _width(share: float) -> float:
    return max(100 * share, NARROWEST) if share else 0.0


def _causes(stage: rendering.Stage, links: Mapping[str, str]) -> Iterator[Words]:
    most = len(stage.causes) if stage.kind == "candidates" else CAUSES
    yield from (_cause(cause, links) for cause in stage.causes[:most])
    if rest := stage.causes[most:]:
        number = count_text(sum(cause.number for cause in rest), "host")
        summary = f"{count_text(len(rest), 'other reason')} ({number})"
        yield Folded("", summary, [_cause(cause, links) for cause in rest])
    if stage.unexplained:
        yield f"{count_text(stage.unexplained, 'more host')}, reason not computed"


def _cause(cause: rendering.Cause, links: Mapping[str, str]) -> Words:
    if not cause.hosts:
        return cause.reason
    names = [_link(name, links) for name in cause.hosts[:NAMED]]
    left = (cause.number or len(cause.hosts)) - len(names)
    more = f" and {left} more)" if left > 0 else ")"
    return Joined([f"{cause.reason} (", Joined(names), more], "")


def _claims(decision: Decision, links: Mapping[str, str]) -> Table:
    rows = [
        (
            instance if len(decision.claims) > 1 else "",
            event.attempt,
            _link(event.host or "", links),
            "granted" if event.granted else "",
            event.status or "",
            event.cause,
            event.next_step,
        )
        for instance, events in decision.claims.items()
        for event in events
    ]
    columns = ("Instance", "Try", "Host", "Result", "Status", "Cause", "Next step")
    return Table(columns, rows, "Claims", only_on_page=True)


def hosts(decision: Decision, most: int | None, links: Mapping[str, str] = NO_LINKS) -> Table:
    """Return the first hosts of a decision; ``most`` None: all that are named."""
    found = list(islice(rendering.hosts(decision), most))
    nodes = any(one.node.partition(".")[0] != one.host.partition(".")[0] for one in found)
    columns = ("Host", *(("Node",) if nodes else ()), "Cell", "Zone", "Outcome", "Why", "Weight")
    rows = [
        (
            _link(one.host, links),
            *((one.node,) if nodes else ()),
            one.cell or "",
            one.zone or "",
            one.outcome,
            why(one),
            "" if one.total is None else f"{one.total:.4g}",
        )
        for one in found
    ]
    note = "The hosts that matter most come first."
    if not decision.hosts.complete:
        note += " Only hosts that the decision itself names are known."
    return Table(
        columns,
        rows,
        "Hosts, one by one",
        note,
        numbers=("Weight",),
        looks={number: CHOSEN for number, one in enumerate(found) if one.outcome == CHOSEN},
        searched=True,
        left_out=max(0, rendering.hosts_total(decision) - len(rows)) if rows else 0,
    )


def why(one: rendering.Host) -> str:
    is_weighed = not one.filter and one.outcome != REFUSED
    parts = ", ".join(f"{weigher} {added:.3g}" for weigher, added in one.weights if added)
    return "; ".join(filter(None, (one.why, parts if is_weighed else "")))
