"""A decision as it is shown: request and result, the stages, the weights, the claims and the hosts."""

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any
from urllib.parse import unquote_plus

from scheduler import errors, objects
from scheduler.decisions import rendering
from scheduler.decisions.document import CHOSEN, REFUSED, Decision, Error, Out, Why
from scheduler.decisions.words import NAMED, with_reasons
from scheduler.logs import count_text
from scheduler.operators.shown.shown import (
    BAD,
    GOOD,
    Bar,
    Columns,
    Fact,
    Folded,
    Head,
    Joined,
    Link,
    Saying,
    Shown,
    Table,
    Words,
    some,
    table,
)
from scheduler.request.reading import read

#: Causes of one stage that are not folded.
CAUSES = 3

#: The width of the narrowest visible bar.
NARROWEST = 0.4


def shown(
    decision: Decision,
    source: str,
    document: Any,
    most_hosts: int | None = None,
    home: Link | None = None,
) -> Shown:
    """Return what is shown of a decision.

    Args:
        source: Where it was found.
        most_hosts: Maximum number of hosts in the table; None: all that are named.
        home: The list of decisions.
    """
    return Shown(document, head(decision, source, home), parts(decision, most_hosts))


# -- head ------------------------------------------------------------------------------------------------


def head(decision: Decision, source: str, home: Link | None = None) -> Head:
    result = rendering.result(decision)
    return Head(
        title=result[:1].upper() + result[1:],
        subject=subject(decision),
        look=BAD if decision.error else GOOD,
        time=decision.time,
        facts=list(_facts(decision, source)),
        sayings=list(sayings(decision)),
        home=home,
    )


def subject(decision: Decision) -> str:
    name = decision.request_id or "without id"
    return f"Request {name}: {decision.kind} of {rendering.first(decision.instances, 1)}"


def _facts(decision: Decision, source: str) -> Iterator[Fact]:
    yield Fact("project", decision.project_id or "none")
    if len(decision.instances) > 1:
        yield Fact("instances", some(decision.instances, NAMED))
    yield Fact("flavor", rendering.flavor(decision.flavor))
    if decision.availability_zone:
        yield Fact("zone", decision.availability_zone)
    yield from (Fact(*each) for each in requested_lines(decision))
    for query in decision.queries:
        yield Fact("query", unquote_plus(query))
    if decision.partition:
        yield Fact("partition", decision.partition)
    yield from (Fact("note:", note) for note in decision.notes)
    candidates = decision.candidates
    decided = [f"{decision.time}, {decision.milliseconds.get('total', 0):.0f} ms, from the {source}"]
    if candidates.origin == "placement" and candidates.hosts:
        decided.append(f"Placement's answer was {candidates.age * 1000:.0f} ms old")
    if candidates.requests > 1:
        decided.append(f"{candidates.requests} requests shared it")
    if candidates.source == "mirror":
        decided.append(f"the mirror was refreshed {candidates.age:.1f} s before")
    if candidates.truncated:
        decided.append("a limit may have cut the answer")
    yield Fact("decided", "; ".join(decided))


def sayings(decision: Decision) -> Iterator[Saying]:
    """Yield what became of a request, and of one without a host why, and what helps."""
    yield Saying(rendering.result(decision), "Result")
    if cause := decision.cause:
        yield Saying(f"{cause.words} ({cause.code})", "Cause")
        yield Saying(cause.remedy, "Remedy")
    elif decision.error is not None:
        yield Saying(decision.summary, "Cause")
        yield Saying(of_error(decision.error)[1], "Remedy")


def of_error(error: Error) -> tuple[str, str, str]:
    """Return what users read of an error that is no refusal, what helps, and what users can do."""
    kind = getattr(errors, error.kind, errors.BerthError)
    if issubclass(kind, errors.CallerLeft):
        words = "nobody waited for it any more"
        return words, "None is needed: nobody waits for its instances.", "See the instance."
    if issubclass(kind, errors.DependencyUnavailable):
        again = "Try again when the dependency is available again."
        return "a part of the cloud was unavailable", again, "Try again."
    return "the cloud has a fault", "See the log line of the request with this error.", "Ask the operator."


# -- pictures and tables ---------------------------------------------------------------------------------


def parts(decision: Decision, most_hosts: int | None) -> list[Table]:
    """Return the pictures and tables of a decision; the last one has the hosts."""
    tables = [funnel(decision)]
    if decision.why and decision.why.failing:
        tables.append(failed_sets(decision.why, "What hosts fail"))
    if decision.claims:
        tables.append(_claims(decision))
    return [*tables, hosts(decision, most_hosts)]


def funnel(decision: Decision) -> Table:
    """Return the stages; several that rejected no host are one row."""
    stages = [stage for stage in rendering.funnel(decision) if stage.start != 0]
    most = max((stage.entered for stage in stages if stage.kind != "claims"), default=0) or 1
    decided = next((stage for stage in stages if decision.error and not stage.end), None)
    rows, looks = list[rendering.Stage](), dict[int, str]()
    for idle, alike in groupby(stages, lambda stage: stage.start == stage.end and stage.kind != "claims"):
        some_stages = list(alike)
        if idle and len(some_stages) > 1:
            looks[len(rows)] = "folded"
            names = ", ".join(dict.fromkeys(stage.name for stage in some_stages))
            out, name = [Out(f"none by {names}", 0, [])], f"{len(some_stages)} stages"
            some_stages = [some_stages[0]._replace(name=name, instance="", out=out)]
        elif decided in some_stages:
            looks[len(rows) + some_stages.index(decided)] = "deciding"
        rows += some_stages

    def bar(stage: rendering.Stage) -> Bar:
        words = f"{stage.entered} hosts before, {stage.end} after"
        return Bar(_width(stage.entered / most), _width(stage.end / most), words)

    columns: Columns = {
        "Stage": lambda stage: _name(decision, stage),
        "Before": "start",
        "After": "end",
        "Hosts": lambda stage: None if stage.kind == "claims" else bar(stage),
        "Why others are out": lambda stage: tuple(_causes(stage)),
    }
    return table(rows, columns, "Hosts, stage by stage", pictures=("Hosts",), looks=looks)


def _name(decision: Decision, stage: rendering.Stage) -> str:
    if len(decision.instances) == 1 or stage.instance not in decision.instances:
        return stage.name
    number = decision.instances.index(stage.instance) + 1
    return f"{stage.name} (instance {number} of {len(decision.instances)})"


def _width(share: float) -> float:
    return max(100 * share, NARROWEST) if share else 0.0


def _causes(stage: rendering.Stage) -> Iterator[Words]:
    yield from (_cause(cause) for cause in stage.out[:CAUSES])
    if rest := stage.out[CAUSES:]:
        number = count_text(sum(cause.hosts for cause in rest), "host")
        summary = f"{count_text(len(rest), 'other reason')} ({number})"
        yield Folded("", summary, [_cause(cause) for cause in rest])
    unexplained = (stage.start or 0) - stage.end - sum(cause.hosts for cause in stage.out)
    if stage.kind == "filter" and stage.out and unexplained > 0:
        yield f"{count_text(unexplained, 'more host')}, reason not computed"


def _cause(cause: Out) -> Words:
    if not cause.names:
        return cause.text
    return Joined([f"{cause.text} (", _names(cause.names, cause.hosts), ")"], "")


def _names(names: Sequence[str], hosts: int) -> Joined:
    shown = [Link(name) for name in names[:NAMED]]
    left = hosts - len(shown)
    return Joined([Joined(shown), f" and {left} more" if left > 0 else ""], "")


def failed_sets(why: Why, title: str) -> Table:
    """Return the sets of constraints that hosts fail, with the reasons."""
    rows = [
        (
            failing.hosts,
            tuple(
                with_reasons(constraint, reasons, failing.hosts)
                for constraint, reasons in why.explained(failing)
            ),
            _names(failing.names, failing.hosts),
        )
        for failing in why.failing
    ]
    return Table(("Hosts", "Fail", "Such as"), rows, title)


def _claims(decision: Decision) -> Table:
    several = len(decision.claims) > 1
    events = [(instance, event) for instance, events in decision.claims.items() for event in events]
    columns: Columns = {
        "Instance": lambda one: one[0] if several else "",
        "Try": lambda one: one[1].attempt,
        "Host": lambda one: Link(one[1].host or ""),
        "Result": lambda one: "granted" if one[1].granted else "",
        "Status": lambda one: one[1].status,
        "Cause": lambda one: one[1].cause,
        "Next step": lambda one: one[1].next_step,
    }
    return table(events, columns, "Claims", only_on_page=True)


def hosts(decision: Decision, most: int | None) -> Table:
    """Return the first hosts of a decision; ``most`` None: all that are named."""
    named = list(islice(rendering.hosts(decision), most))
    total = max(len(decision.hosts.host), decision.candidates.known or 0)
    nodes = any(host.node.partition(".")[0] != host.host.partition(".")[0] for host in named)
    columns: Columns = {
        "Host": lambda host: Link(host.host), **({"Node": "node"} if nodes else {}),
        "Cell": "cell", "Zone": "zone", "Outcome": "outcome",
        # the table of the sets has the reasons
        "Why": lambda host: host.filter if host.filter and decision.why else why(host),
        "Weight": lambda host: None if host.total is None else f"{host.total:.4g}",
    }  # fmt: skip
    note = "The hosts that matter most come first."
    if not decision.hosts.complete:
        note += " Only hosts that the decision itself names are known."
    return table(
        named,
        columns,
        "Hosts, one by one",
        note=note,
        looks={number: CHOSEN for number, host in enumerate(named) if host.outcome == CHOSEN},
        searched=True,
        left_out=max(0, total - len(named)) if named else 0,
    )


def why(host: rendering.Host) -> str:
    """Return why a host was not chosen, or what weighers gave it."""
    parts = ", ".join(f"{weigher} {added:.3g}" for weigher, added in host.weights if added)
    is_weighed = not host.filter and host.outcome != REFUSED
    rejected = ": ".join(filter(None, (host.filter, host.reason)))
    return "; ".join(filter(None, (rejected, parts if is_weighed else "")))


# -- what is requested besides the flavor -----------------------------------------------------------------


def requested_lines(decision: Decision) -> Iterator[tuple[str, str]]:
    """Yield a title and a text for each part of the request; nothing if the request was not kept."""
    spec = decision.request_spec()
    if spec is None:
        return
    hints, group = read(spec, "scheduler_hints", {}), read(spec, "instance_group")
    lines = {
        "forced to": ", ".join([*read(spec, "force_hosts", ()), *read(spec, "force_nodes", ())]),
        "requested destination": _destination(read(spec, "requested_destination")),
        "ignored hosts": ", ".join(read(spec, "ignore_hosts", ())),
        "hints": ", ".join(f"{name}={value}" for name, values in hints.items() for value in values),
        "server group": _group(group, decision.instances) if group else "",
        "image": _image(read(spec, "image")),
    }
    yield from filter(itemgetter(1), lines.items())


def _destination(destination: Any) -> str:
    parts = {
        "host": read(destination, "host"),
        "node": read(destination, "node"),
        "cell": read(read(destination, "cell"), "name") or read(read(destination, "cell"), "uuid"),
    }
    return ", ".join(f"{name} {value}" for name, value in parts.items() if value)


def _group(group: objects.InstanceGroup, instances: list[str]) -> str:
    """Describe a server group; the instances of the request do not count as its members."""
    uuid, name, policy = (read(group, key) for key in ("uuid", "name", "policy"))
    named = f"{name} ({uuid})" if name else uuid
    policies = policy or ", ".join(filter(None, read(group, "policies", ())))
    rules = [f"{name}={value}" for name, value in read(group, "_rules", {}).items()]
    members = len(set(read(group, "members", ())).difference(instances))
    hosts = sorted(filter(None, read(group, "hosts", ())))
    where = f" on {', '.join(hosts)}" if hosts else ""
    return f"{named}: {', '.join([policies, *rules])}, {count_text(members, 'member')}{where}"


def _image(image: Any) -> str:
    properties = read(image, "properties")
    values = {} if properties is None else properties.to_dict()
    texts = ", ".join(
        f"{name}={','.join(map(str, value)) if isinstance(value, (list, tuple, set)) else value}"
        for name, value in sorted(values.items())
    )
    return ": ".join(filter(None, (read(image, "name") or read(image, "id") or "", texts)))
