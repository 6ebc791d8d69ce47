"""Plans as they are shown: lines, pictures and tables of each kind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from scheduler.decisions import rendering
from scheduler.decisions.document import decode
from scheduler.logs import count_text
from scheduler.operators.explain import decision
from scheduler.operators.shown.shown import (
    BAD,
    GOOD,
    Bars,
    Columns,
    Fact,
    Head,
    Part,
    Saying,
    Shown,
    Table,
    bars,
    table,
)

Plan = Mapping[str, Any]

#: Limits that are shown of one place, and names of a list.
LIMITS = 3
NAMED = 5

#: Hosts of a dry run that are shown, and where its decision comes from.
BEST = 10
SOURCE = "plan"

NO_PLACE = 3


def shown(plan: Plan, time: str | None = None) -> Shown:
    """Return what is shown of a plan of any kind, which its key ``plan`` names.

    Args:
        time: Of the snapshot, in ISO format.
    """
    head, parts = _KINDS[plan["plan"]](plan)
    return Shown(dict(plan), replace(head, time=time), parts, status=0 if plan["all_placed"] else NO_PLACE)


def amounts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in found.items() if amount) or "nothing"


def flavor_of(one: Plan) -> str:
    return one["flavor"] or "?"


def _look(plan: Plan) -> str:
    return GOOD if plan["all_placed"] else BAD


# -- instances without a place ---------------------------------------------------------------------------


def _causes(found: Sequence[Plan]) -> list[str]:
    """Return one sentence for each cause, that of most instances first."""
    of_cause: dict[str, list[Plan]] = {}
    for one in found:
        # the same cause holds for many hosts
        cause = one["why"]["text"].replace(f"host {one['from']}", "its host").replace(one["from"], "its host")
        of_cause.setdefault(cause, []).append(one)
    ordered = sorted(of_cause.items(), key=lambda each: -len(each[1]))
    return [f"{count_text(len(ones), 'instance')}{_groups(ones)}: {cause}" for cause, ones in ordered]


def _groups(ones: Sequence[Plan]) -> str:
    groups = list(dict.fromkeys(_group(one) for one in ones if one["server_group"]))
    if not groups:
        return ""
    return f" of {count_text(len(groups), 'server group')} ({rendering.first(groups, NAMED)})"


def _group(one: Plan) -> str:
    return one.get("server_group_name") or one["server_group"]


#: Columns with the names of an instance; of these a text has the first.
_NAMES: Columns = {
    "Server": lambda one: one.get("name"),
    "Project": lambda one: one.get("project_id"),
    "Server group": lambda one: _group(one) if one.get("server_group") else "",
}
_ON_PAGES = tuple(_NAMES)[1:]


def _stuck(found: Sequence[Plan]) -> Table:
    columns = {
        "Instance": "instance", **_NAMES, "Flavor": flavor_of, "State": "state", "On": "from",
        "Why it has no place": lambda one: one["why"]["text"],
    }  # fmt: skip
    return table(found, columns, "Instances without a place", pictures=_ON_PAGES)


def _moves(found: Sequence[Plan], more: Columns) -> Table:
    columns = {
        "Step": "step", "Instance": "instance", **_NAMES, "Flavor": flavor_of,
        "From": "from", "To": "to", "Way": "way", **more,
    }  # fmt: skip
    return table(found, columns, "Moves", numbers=("Gain",), pictures=_ON_PAGES, searched=bool(found))


# -- each kind of plan -----------------------------------------------------------------------------------


def _drain(plan: Plan) -> tuple[Head, list[Part]]:
    stays = plan["without_place"]
    hosts = plan["hosts"]
    named = ", ".join(hosts) if len(hosts) <= NAMED else count_text(len(hosts), "host")
    sayings = []
    if stays:
        missing = f", missing {amounts(plan['missing'])}" if any(plan["missing"].values()) else ""
        words = f"{count_text(len(stays), 'instance')} without a place{missing}"
        sayings.append(Saying(words, details=_causes(stays)))
    subject = f"{named}: {len(plan['moves'])} of {count_text(plan['instances'], 'instance')} can move"
    moves = _moves(plan["moves"], {"Zone": "zone"})
    return Head("Emptying hosts", subject, _look(plan), sayings=sayings), [
        _targets(plan),
        *([_stuck(stays)] if stays else []),
        moves,
    ]


def _targets(plan: Plan) -> Bars:
    used = [(one, one["memory_used"]["before"], one["memory_used"]["after"]) for one in plan["targets"]]
    used.sort(key=lambda each: each[1] - each[2])
    rows = (
        (one["host"], after, before, f"{before:.0%} → {after:.0%}, {_gib(one)}", "")
        for one, before, after in used
    )
    legend = (("pale", "after"), ("strong", "before"))
    return bars("Memory in use of the hosts that get instances, most change first", rows, legend, most=1)


BY_HAND = (
    "{} if an operator first resets instances that nova does not evacuate: it evacuates active and stopped "
    "ones, and those in error"
)


def _gib(one: Plan) -> str:
    return f"{one['memory_mb'] / 1024:.0f} GiB of {count_text(one['instances'], 'instance')}"


def _survive(plan: Plan) -> tuple[Head, list[Part]]:
    sayings = []
    if by_hand := plan["survived_by_hand"]:
        sayings.append(Saying(BY_HAND.format(count_text(by_hand, "more failure"))))
    stays = [one for answer in plan["answers"] for one in answer["without_place"]]
    if plan["missing"]:
        words = f"missing in the worst case: {amounts(plan['missing'])}"
        sayings.append(Saying(words, details=_causes(stays)))
    elif stays:
        sayings.append(Saying("instances without a place:", details=_causes(stays)))
    elif plan["flavor"]:
        added = f"{plan['may_be_added']} more of flavor {plan['flavor']} can be added"
        sayings.append(Saying(f"{added} until a failure is not survived"))
    columns: Columns = {
        "Failure": "domain", "Hosts": "hosts", "Instances": "instances", "Placed": "placed",
        "Of these by hand": lambda one: ", ".join(f"{count} {why}" for why, count in one["by_hand"].items()),
        "Missing": lambda one: amounts(one["missing"]),
    }  # fmt: skip
    subject = f"{plan['survived']} of {count_text(plan['domains'], 'failure')} would be survived"
    drawn = (
        (name, all_, placed, f"{placed} of {all_} placed", "" if placed == all_ else BAD)
        for name, all_, placed in (
            (one["domain"], one["instances"], one["placed"]) for one in plan["answers"]
        )
    )
    legend = (("pale", "on the failed hosts"), ("strong", "placed on the rest"))
    return Head("Losing hosts", subject, _look(plan), sayings=sayings), [
        bars("Instances of each failure", drawn, legend),
        table(plan["answers"], columns, "Failures", left_out=plan["domains"] - len(plan["answers"])),
    ]


def _failures(plan: Plan) -> tuple[Head, list[Part]]:
    kinds = [one["kind"] for one in plan["kinds"]]
    worst: Columns = {f"Loss of {kind}": partial(_lost, kind=kind) for kind in kinds}
    columns = {"Flavor at risk": "flavor", "Instances": "instances", **worst}
    flavors = table(plan["flavors"], columns, "Flavors at risk")
    counts = [(one["kind"], one["domains"], _survived(one)) for one in plan["kinds"]]
    drawn = (
        (name, all_, good, f"{good} of {all_}", "" if good == all_ else BAD) for name, all_, good in counts
    )
    legend = (("pale", "checked"), ("strong", "survived"))
    head = Head(
        "What the cloud survives",
        look=_look(plan),
        sayings=[Saying(_kind_of_failure(one)) for one in plan["kinds"]],
    )
    return head, [bars("Failures that would be survived", drawn, legend), flavors]


def _survived(one: Plan) -> int:
    return int(one["survived"] + one["survived_by_hand"])


def _kind_of_failure(one: Plan) -> str:
    failures = count_text(one["domains"], "failure")
    line = f"loss of {one['kind']}: {_survived(one)} of {failures} would be survived"
    if one["survived_by_hand"]:
        line += f", {one['survived_by_hand']} of them with instances that an operator resets first"
    if one["worst"]:
        line += f"; worst: {one['worst']}, {count_text(one['without_place'], 'instance')} without a place"
    return line


def _lost(one: Plan, kind: str) -> str:
    """Return the most instances of a flavor without a place in one failure of a kind."""
    lost = one["without_place"][kind]
    return f"{lost} without a place" if lost else "survived"


def _copies(moves: Sequence[Plan]) -> str:
    """Return what moves cost, in one line."""
    memory, disk = (sum(one[name] for one in moves) for name in ("memory_gib", "disk_gib"))
    down = [one for one in moves if one["down"]]
    text = f"{memory:g} GiB of memory, {disk} GiB of disk unless hosts share it"
    if down:
        size = sum(one["disk_gib"] for one in down)
        text += f"; {count_text(len(down), 'instance')} down while {size} GiB are copied"
    return text


def _balance(plan: Plan) -> tuple[Head, list[Part]]:
    before, after = plan["before"], plan["after"]
    name = "memory_used_deviation_percent"
    facts = [
        *([Fact("to copy:", _copies(plan["moves"]))] if plan["moves"] else []),
        Fact("deviation of memory in use:", f"{before[name]} % -> {after[name]} %"),
        Fact("hosts without instances:", f"{before['empty_hosts']} -> {after['empty_hosts']}"),
    ]
    if plan["emptied"]:
        facts.append(Fact("emptied:", ", ".join(plan["emptied"])))
    subject = f"{count_text(len(plan['moves']), 'move')} to {plan['goal']}"
    more: Columns = {
        "Memory, GiB": "memory_gib", "Disk, GiB": "disk_gib",
        "Gain": lambda one: None if one["gain"] is None else f"{one['gain']:.3f}",
    }  # fmt: skip
    moves = _moves(plan["moves"], more)
    look = GOOD if plan["moves"] else ""
    head = Head("Moves that help", subject, look, facts=facts)
    return head, [_histogram(before, after, "before", "after"), moves]


def _histogram(before: Plan, after: Plan, pale: str, strong: str) -> Bars:
    counts = zip(before["hosts_by_tenth_used"], after["hosts_by_tenth_used"], strict=True)
    rows = (
        (f"{10 * tenth}-{10 * tenth + 10} %", first, second, f"{first} → {second} hosts", "")
        for tenth, (first, second) in enumerate(counts)
    )
    return bars("Hosts by share of memory in use", rows, (("pale", pale), ("strong", strong)))


def _limits(place: Plan) -> str:
    return ", ".join(f"{one['limit']} ({one['hosts']})" for one in place["limits"][:LIMITS]) or "nothing"


def _capacity(plan: Plan) -> tuple[Head, list[Part]]:
    total = plan["total"]
    offered = f"{total['hosts_with_room']} of {count_text(total['hosts'], 'host')} that Placement offers"
    facts = [
        Fact("room:", offered),
        Fact("runs out first:", _limits(total)),
        Fact("stranded then:", amounts(total["stranded"])),
    ]
    if plan["reason"]:
        facts.append(Fact("reason:", plan["reason"]))
    columns: Columns = {
        "Cell": "cell", "Zone": "zone", "Instances": "instances",
        "Hosts with room": lambda one: f"{one['hosts_with_room']} of {one['hosts'] + one['not_offered']}",
        "Runs out first (hosts)": lambda one: _limits(one) if one["hosts"] else "not offered by Placement",
        "Stranded then": lambda one: amounts(one["stranded"]),
    }  # fmt: skip
    drawn = (
        (f"{one['cell']} {one['zone']}", 0, one["instances"], str(one["instances"]),
         "" if one["instances"] else BAD)
        for one in plan["places"]
    )  # fmt: skip
    head = Head(
        "What still fits",
        f"{plan['instances']} more of flavor {plan['flavor']} fit",
        "" if plan["all_placed"] else BAD,
        facts=facts,
    )
    return head, [bars("Instances that fit", drawn), table(plan["places"], columns, "Places")]


def _capacities(plan: Plan) -> tuple[Head, list[Part]]:
    # What runs out first comes first
    flavors = sorted(plan["flavors"], key=lambda one: (one["headroom"], _total(one), one["flavor"]))
    sayings = [Saying(f"{one['flavor']}: {one['reason']}") for one in flavors if one["reason"]]
    nothing = {"zone": "none", "instances": 0, "headroom": 0, "stranded": {}}
    zones = [{"flavor": one["flavor"], **zone} for one in flavors for zone in one["zones"] or [nothing]]
    of_zones: Columns = {
        "Flavor": "flavor", "Zone": "zone", "Instances": "instances", "After the loss of a host": "headroom",
        "Stranded then": lambda one: amounts(one["stranded"]),
    }  # fmt: skip
    of_flavors: Columns = {
        "Flavor": "flavor", "Instances": _total, "After the loss of a host": "headroom",
        "Worst host": "worst_loss",
    }  # fmt: skip
    drawn = (
        (
            one["flavor"],
            1 if _total(one) else 0,
            one["headroom"] / _total(one) if _total(one) else 0,
            f"{_total(one):,}, {one['headroom']:,} after a loss",
            "" if one["headroom"] else BAD,
        )
        for one in flavors
    )
    picture = bars(
        "Instances that fit, the scarcest flavor first",
        drawn,
        (("pale", "now"), ("strong", "after the loss of any one host")),
        "Each bar has the scale of its flavor.",
        most=1,
    )
    tables = [table(flavors, of_flavors, "Flavors"), table(zones, of_zones, "Flavors by zone", searched=True)]
    head = Head("What still fits", sayings=sayings)
    return head, [picture, *tables]


def _total(one: Plan) -> int:
    return sum(zone["instances"] for zone in one["zones"])


SIDES = {
    "refused": "Instances without a host",
    "hosts": "Hosts that get instances",
    "memory_used_mean_percent": "Memory in use, mean of all hosts, %",
    "memory_used_deviation_percent": "Memory in use, standard deviation, %",
    "empty_hosts": "Hosts without instances",
    "largest_flavor": "Largest flavor that still fits",
    "members_in_one_domain": "Most members of a group in one failure domain",
}


def _policy(plan: Plan) -> tuple[Head, list[Part]]:
    facts = [
        Fact(f"[{one['group']}] {one['name']}:", f"{one['now']} -> {one['changed']}")
        for one in plan["options"]
    ]
    if plan["left_out"]:
        reasons = (
            f"{count_text(number, 'instance')} ({reason})" for reason, number in plan["left_out"].items()
        )
        facts.append(Fact("not decided again:", ", ".join(reasons)))
    before, after = plan["sides"]["now"], plan["sides"]["changed"]
    columns: Columns = {"Measure": 0, "Now": 1, "Changed": 2}
    measures = [(words, before[name], after[name]) for name, words in SIDES.items()]
    sides = table(measures, columns, "Before and after", numbers=("Now", "Changed"))
    choices = [one for one in plan["choices"] if one["now"] != one["changed"]]
    columns = {
        "Instance": "instance", "Server": lambda one: one.get("name"), "Flavor": "flavor", "Is on": "is_on",
        "Now": lambda one: one["now"] or "none", "Changed": lambda one: one["changed"] or "none",
    }  # fmt: skip
    instances = table(choices, columns, "Instances that would go elsewhere", searched=bool(choices))
    subject = f"{plan['differing']} of {count_text(plan['instances'], 'instance')} would go elsewhere"
    if plan["differing"] and not plan["with_rows"]:
        subject += "; --rows lists them"
    head = Head("Other options", subject, "" if plan["all_placed"] else BAD, facts=facts)
    return head, [
        _histogram(before, after, "options in use", "changed options"),
        sides,
        *([instances] if plan["with_rows"] else []),
    ]


def _dry_run(plan: Plan) -> tuple[Head, list[Part]]:
    fitting = plan["fitting"] if plan["placed"] < plan["instances"] else 0
    subject = f"A host for {plan['placed']} of {count_text(plan['instances'], 'instance')} of flavor " + (
        f"{plan['flavor']}; the first {fitting} would find one" if fitting else f"{plan['flavor']}"
    )
    decided = decode(msgspec.json.encode(plan["decision"]))
    head = decision.head(decided, SOURCE)
    notes = [Fact("note:", note) for note in plan["notes"]]
    head = replace(head, title=f"Dry run: {head.title}", subject=subject, facts=[*notes, *head.facts])
    columns: Columns = {
        "Instance": "number", "Host": "host", "Cell": "cell", "Zone": "zone",
        "Alternates": lambda one: ", ".join(one["alternates"]),
    }  # fmt: skip
    chosen = table(plan["hosts"], columns, "Chosen hosts")
    found = decision.reasons(decided, BEST)
    return head, [*found, chosen] if plan["hosts"] else found


_KINDS: Mapping[str, Callable[[Plan], tuple[Head, list[Part]]]] = {
    "drain": _drain,
    "survive": _survive,
    "failures": _failures,
    "balance": _balance,
    "capacity": _capacity,
    "capacities": _capacities,
    "policy": _policy,
    "dry-run": _dry_run,
}
