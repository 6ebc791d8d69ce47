"""Plans as lines and tables."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from scheduler.decisions.document import decode
from scheduler.logs import count_text
from scheduler.operators.command.tables import Table
from scheduler.operators.explain import text as decision_text
from scheduler.operators.explain.decision_commands import Shown

Plan = Mapping[str, Any]

#: Limits that are shown of one place, and reasons for instances without a place.
LIMITS = 3
REASONS = 5

#: Hosts of a dry run that are shown, and where its decision comes from.
BEST = 10
SOURCE = "plan"


def amounts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in found.items() if amount) or "nothing"


def flavor_of(one: Plan) -> str:
    return one["flavor"] or "?"


def _stuck(found: Sequence[Plan]) -> Table:
    columns = ("Instance", "Flavor", "State", "On", "Why it has no place")
    return columns, [
        (one["instance"], flavor_of(one), one["state"], one["from"], one["why"]["text"]) for one in found
    ]


def _reasons(found: Sequence[Plan]) -> list[str]:
    """Return the lines on instances without a place by reason, that of most instances first."""
    reasons = Counter(one["why"]["text"] for one in found)
    lines = [
        f"  {count_text(number, 'instance')}: {reason}" for reason, number in reasons.most_common(REASONS)
    ]
    more = len(reasons) - REASONS
    return [*lines, *([f"  and {count_text(more, 'more reason')}"] if more > 0 else [])]


def _drain(plan: Plan) -> Shown:
    stays = plan["without_place"]
    hosts = plan["hosts"]
    named = ", ".join(hosts) if len(hosts) <= REASONS else count_text(len(hosts), "host")
    head = [f"{named}: {len(plan['moves'])} of {count_text(plan['instances'], 'instance')} can move"]
    if stays:
        missing = f", missing {amounts(plan['missing'])}" if any(plan["missing"].values()) else ""
        head += [f"{count_text(len(stays), 'instance')} without a place{missing}"]
        head += _reasons(stays)
    columns = ("Step", "Instance", "Flavor", "From", "To", "Zone", "Way")
    moves = [
        (one["step"], one["instance"], flavor_of(one), one["from"], one["to"], one["zone"], one["way"])
        for one in plan["moves"]
    ]
    tables: list[Table] = [_stuck(stays), (columns, moves)]
    return Shown(dict(plan), head, tables)


def _survive(plan: Plan) -> Shown:
    head = [f"{plan['survived']} of {count_text(plan['domains'], 'failure')} would be survived"]
    if by_hand := plan["survived_by_hand"]:
        head.append(
            f"{count_text(by_hand, 'more failure')} if an operator first resets instances that nova does not "
            "evacuate: it evacuates active and stopped ones, and those in error"
        )
    if plan["missing"]:
        head.append(f"missing in the worst case: {amounts(plan['missing'])}")
    elif plan["flavor"]:
        added = f"{plan['may_be_added']} more of flavor {plan['flavor']} can be added"
        head.append(f"{added} until a failure is not survived")
    stays = [one for answer in plan["answers"] for one in answer["without_place"]]
    head += _reasons(stays)
    columns = ("Failure", "Hosts", "Instances", "Placed", "Of these by hand", "Missing")
    rows = [
        (
            one["domain"],
            one["hosts"],
            one["instances"],
            one["placed"],
            ", ".join(f"{number} {state}" for state, number in one["by_hand"].items()),
            amounts(one["missing"]),
        )
        for one in plan["answers"]
    ]
    return Shown(dict(plan), head, [(columns, rows)])


def _failures(plan: Plan) -> Shown:
    head = []
    for one in plan["kinds"]:
        survived = one["survived"] + one["survived_by_hand"]
        line = (
            f"loss of {one['kind']}: {survived} of {count_text(one['domains'], 'failure')} would be survived"
        )
        if one["survived_by_hand"]:
            line += f", {one['survived_by_hand']} of them with instances that an operator resets first"
        if one["worst"]:
            line += f"; worst: {one['worst']}, {count_text(one['without_place'], 'instance')} without a place"
        head.append(line)
    kinds = [one["kind"] for one in plan["kinds"]]
    worst = tuple(f"Loss of {kind}" for kind in kinds)
    nights: Table = (
        ("Night", *worst),
        [(one["night"], *(_night(one["kinds"].get(kind)) for kind in kinds)) for one in plan["history"]],
    )
    groups: Table = (
        ("Server group", "Name", "Policy", "Members", *worst),
        [
            (one["group"], one["name"] or "?", one["policy"] or "?", one["members"], *_lost(one, kinds))
            for one in plan["groups"]
        ],
    )
    flavors: Table = (
        ("Flavor at risk", "Instances", *worst),
        [(one["flavor"], one["instances"], *_lost(one, kinds)) for one in plan["flavors"]],
    )
    return Shown(dict(plan), head, [*([nights] if plan["history"] else []), groups, flavors])


def _lost(one: Plan, kinds: Sequence[str]) -> Iterator[str]:
    """Yield the most instances of a flavor or group without a place in one failure of each kind."""
    for kind in kinds:
        lost = one["without_place"][kind]
        yield f"{lost} without a place" if lost else "survived"


def _night(one: Plan | None) -> str:
    return "" if one is None else f"{one['survived'] + one['survived_by_hand']} of {one['domains']} survived"


def _copies(moves: Sequence[Plan]) -> str:
    """Return what moves cost, in one line."""
    memory, disk = (sum(one[name] for one in moves) for name in ("memory_gib", "disk_gib"))
    down = [one for one in moves if one["down"]]
    parts = [f"{memory:g} GiB of memory", f"{disk} GiB of disk unless hosts share it"]
    text = f"  to copy: {', '.join(parts)}"
    if down:
        size = sum(one["disk_gib"] for one in down)
        text += f"; {count_text(len(down), 'instance')} down while {size} GiB are copied"
    return text


def _balance(plan: Plan) -> Shown:
    before, after = plan["before"], plan["after"]
    name = "memory_used_deviation_percent"
    moves = count_text(len(plan["moves"]), "move")
    purpose = {
        "room": f"give {plan['room_on'] or 'a host'} room for one of flavor {plan['flavor']}",
        "below": f"bring all hosts to {plan['below_percent']} % of their memory or less",
    }.get(plan["goal"], plan["goal"])
    head = [
        f"{moves} to {purpose}",
        *([f"  not reached: {plan['why']}"] if plan["why"] else []),
        *([_copies(plan["moves"])] if plan["moves"] else []),
        f"  deviation of memory in use: {before[name]} % -> {after[name]} %",
        f"  hosts without instances: {before['empty_hosts']} -> {after['empty_hosts']}",
    ]
    if plan["emptied"]:
        head.append(f"  emptied: {', '.join(plan['emptied'])}")
    columns = ("Step", "Instance", "Flavor", "From", "To", "Way", "Memory, GiB", "Disk, GiB", "Gain")
    rows = [
        (one["step"], one["instance"], flavor_of(one), one["from"], one["to"], one["way"],
         one["memory_gib"], one["disk_gib"], "" if one["gain"] is None else f"{one['gain']:.3f}")
        for one in plan["moves"]
    ]  # fmt: skip
    return Shown(dict(plan), head, [(columns, rows)])


def _limits(place: Plan) -> str:
    return ", ".join(f"{one['limit']} ({one['hosts']})" for one in place["limits"][:LIMITS]) or "nothing"


def _capacity(plan: Plan) -> Shown:
    total = plan["total"]
    head = [
        f"{plan['instances']} more of flavor {plan['flavor']} fit",
        (
            f"  {total['hosts_with_room']} of {count_text(total['hosts'], 'host')} that Placement offers "
            "have room"
        ),
        f"  runs out first: {_limits(total)}",
        f"  stranded then: {amounts(total['stranded'])}",
    ]
    if plan["reason"]:
        head.append(f"  {plan['reason']}")
    if found := plan.get("forecast"):
        growth = f"{found['created']} created and {found['deleted']} deleted in 30 days"
        if found["week"]:
            until = (
                f"between {found['earliest'] or '?'} and {found['latest'] or 'never'} with 8 chances of 10"
            )
            head.append(f"  full in the week of {found['week']}, {until}: {growth}")
        else:
            soon = f", but perhaps from {found['earliest']} on" if found["earliest"] else ""
            head.append(f"  no end within ten years{soon}: {growth}")
    columns = ("Cell", "Zone", "Instances", "Hosts with room", "Runs out first (hosts)", "Stranded then")
    rows = [
        (
            place["cell"],
            place["zone"],
            place["instances"],
            f"{place['hosts_with_room']} of {place['hosts'] + place['not_offered']}",
            _limits(place) if place["hosts"] else "not offered by Placement",
            amounts(place["stranded"]),
        )
        for place in plan["places"]
    ]
    return Shown(dict(plan), head, [(columns, rows)])


def _after_loss(one: Plan) -> str:
    if one["reason"]:
        return f"{one['flavor']}: {one['reason']}"
    worst = f", the worst one is {one['worst_loss']}" if one["worst_loss"] else ""
    fitting = sum(zone["instances"] for zone in one["zones"])
    return f"{one['flavor']}: {fitting} more fit, {one['headroom']} after the loss of any one host{worst}"


def _capacities(plan: Plan) -> Shown:
    columns = ("Flavor", "Zone", "Instances", "After the loss of a host", "Stranded then")
    nothing = {"zone": "none", "instances": 0, "headroom": 0, "stranded": {}}
    rows = [
        (one["flavor"], zone["zone"], zone["instances"], zone["headroom"], amounts(zone["stranded"]))
        for one in plan["flavors"]
        for zone in one["zones"] or [nothing]
    ]
    head = [_after_loss(one) for one in plan["flavors"]]
    return Shown(dict(plan), head, [(columns, rows)])


SIDES = {
    "refused": "Instances without a host",
    "hosts": "Hosts that get instances",
    "memory_used_mean_percent": "Memory in use, mean of all hosts, %",
    "memory_used_deviation_percent": "Memory in use, standard deviation, %",
    "empty_hosts": "Hosts without instances",
    "largest_flavor": "Largest flavor that still fits",
    "members_in_one_domain": "Most members of a group in one failure domain",
}


def _policy(plan: Plan) -> Shown:
    elsewhere = f"{plan['differing']} of {count_text(plan['instances'], 'instance')} would go elsewhere"
    head = [
        *(f"[{one['group']}] {one['name']}: {one['now']} -> {one['changed']}" for one in plan["options"]),
        elsewhere if plan["with_rows"] or not plan["differing"] else f"{elsewhere}; --rows lists them",
    ]
    if plan["left_out"]:
        reasons = (
            f"{count_text(number, 'instance')} ({reason})" for reason, number in plan["left_out"].items()
        )
        head.append(f"not decided again: {', '.join(reasons)}")
    before, after = plan["sides"]["now"], plan["sides"]["changed"]
    sides: Table = (
        ("", "Now", "Changed"),
        [(words, before[name], after[name]) for name, words in SIDES.items()],
    )
    rows = [
        (one["instance"], one["flavor"] or "", one["is_on"], one["now"] or "none", one["changed"] or "none")
        for one in plan["choices"]
        if one["now"] != one["changed"]
    ]
    instances: Table = (("Instance", "Flavor", "Is on", "Now", "Changed"), rows)
    return Shown(dict(plan), head, [sides, instances] if plan["with_rows"] else [sides])


def _dry_run(plan: Plan) -> Shown:
    fitting = plan["fitting"] if plan["placed"] < plan["instances"] else 0
    head = [
        f"A host for {plan['placed']} of {count_text(plan['instances'], 'instance')} "
        f"of flavor {plan['flavor']}" + (f"; the first {fitting} would find one" if fitting else ""),
        *(f"  {note}" for note in plan["notes"]),
    ]
    decision = decode(msgspec.json.encode(plan["decision"]))
    chosen: Table = (
        ("Instance", "Host", "Cell", "Zone", "Alternates"),
        [
            (one["number"], one["host"], one["cell"], one["zone"], ", ".join(one["alternates"]))
            for one in plan["hosts"]
        ],
    )
    found = [decision_text.funnel(decision), decision_text.hosts(decision, BEST)]
    tables = [*found, chosen] if plan["hosts"] else found
    return Shown(dict(plan), [*head, *decision_text.decision_lines(decision, SOURCE)], tables)


_SHOWN = {
    "drain": _drain,
    "survive": _survive,
    "failures": _failures,
    "balance": _balance,
    "capacity": _capacity,
    "capacities": _capacities,
    "policy": _policy,
    "dry-run": _dry_run,
}


def shown(plan: Plan) -> Shown:
    """Return a plan of any kind (its key ``plan``) as lines and tables, what matters most last."""
    return _SHOWN[plan["plan"]](plan)
