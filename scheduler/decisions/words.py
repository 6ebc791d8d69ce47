"""What hosts fail, in the words of log, fault, lists, terminal and pages.

Reasons that differ in numbers alone are one, and the numbers are given as a range: "last seen 84 s ago" and
"last seen 99 s ago" make one entry.
"""

from collections.abc import Iterable, Sequence
import re

from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.document import Constraint, Failing, Out, Reason, Why
from scheduler.logs import count_text

#: Names of a list that are shown, and hosts that are named of each reason.
NAMED = 3

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_VALUE = re.compile(rf"(?<![\w.])(?:{_UUID}|-?\d+(?:\.\d+)*)(?![\w])")


def failed_words(constraint: Constraint, reasons: Sequence[Reason]) -> str:
    """Return what one host fails, such as 'lacks 2 VCPU: at most 1 VCPU free'."""
    return _phrase(constraint, with_reasons(constraint, reasons, 1), single=True, only=False)


def with_reasons(constraint: Constraint, reasons: Sequence[Reason], hosts: int) -> str:
    """Return a constraint with why hosts fail it."""
    words = reasons_text(reasons, hosts)
    return constraint.words + (f": {words}" if words else "")


def reasons_text(reasons: Sequence[Reason], hosts: int) -> str:
    """Return why hosts fail a constraint; reasons that are not of all ``hosts`` have their number.

    Of reasons that are not counted only those of the first hosts were found out.
    """
    words = ", ".join(
        reason.text if reason.hosts in {0, hosts} else f"{reason.text} on {count_text(reason.hosts, 'host')}"
        for reason in reasons
    )
    return words if all(reason.hosts for reason in reasons) else f"{words} (of the first hosts)"


def _phrase(constraint: Constraint, words: str, *, single: bool, only: bool) -> str:
    alone = " only" if only else ""
    be = "is" if single else "are"
    match constraint.kind:
        case ConstraintKind.FILTER:
            return f"{be} rejected{alone} by {words}"
        case ConstraintKind.HOST | ConstraintKind.CELL | ConstraintKind.IGNORED:
            but = f"{'suits' if single else 'suit'} but " if only else ""
            return f"{but}{be} {'' if constraint.kind == ConstraintKind.IGNORED else 'not '}{words}"
        case ConstraintKind.SEVERAL:
            return f"{'fails' if single else 'fail'} {words}"
    if constraint.text.startswith("forbidden"):
        return f"{'has' if single else 'have'}{alone} {words}"
    return f"{'lacks' if single else 'lack'}{alone} {words}"


def failing_text(why: Why, failing: Failing) -> str:
    """Return what hosts fail, such as '31 hosts lack only required trait CUSTOM_GPU (flavor)'."""
    hosts = ("at least " if failing.cut else "") + count_text(failing.hosts, "host")
    return f"{hosts} {_failed(why.of(failing), failing)}"


def _failed(constraints: Sequence[Constraint], failing: Failing) -> str:
    single = failing.hosts == 1
    if len(constraints) == 1:
        words = with_reasons(constraints[0], failing.first_reasons, failing.hosts)
        return _phrase(constraints[0], words, single=single, only=True)
    named: dict[str, list[str]] = {}
    for constraint in constraints:
        named.setdefault(_phrase(constraint, "", single=single, only=False), []).append(constraint.words)
    return " and ".join(phrase + " and ".join(named[phrase]) for phrase in sorted(named))


def instance_text(why: Why) -> str:
    """Return which instance of several has no host, or ""."""
    if why.instances <= 1:
        return ""
    placed = f"; {why.placed} found a host, which was released" if why.placed else ""
    return f"for instance {why.number} of {why.instances}{placed}"


def group(reasons: Iterable[tuple[str, str]], most: int = NAMED) -> list[Out]:
    """Return the reasons of (host, reason) pairs, those of most hosts first; each names the first hosts."""
    hosts: dict[tuple[str, ...], list[str]] = {}
    values: dict[tuple[str, ...], list[dict[str, None]]] = {}
    for host, reason in reasons:
        pattern = tuple(_VALUE.split(reason))
        hosts.setdefault(pattern, []).append(host)
        known = values.setdefault(pattern, [{} for _ in pattern[1:]])
        for distinct, value in zip(known, _VALUE.findall(reason), strict=True):
            distinct[value] = None
    groups = [
        Out(_text(pattern, values[pattern]), len(names), list(dict.fromkeys(names))[:most])
        for pattern, names in hosts.items()
    ]
    return sorted(groups, key=lambda out: -out.hosts)


def _text(pattern: tuple[str, ...], values: list[dict[str, None]]) -> str:
    ranges = [*(_range(list(distinct)) for distinct in values), ""]
    return "".join(part for pair in zip(pattern, ranges, strict=True) for part in pair)


def _range(values: list[str]) -> str:
    if len(values) == 1:
        return values[0]
    try:
        ordered = sorted(values, key=float)
    except ValueError:  # a uuid, an address, a version
        return f"{values[0]} and others"
    return f"{ordered[0]} to {ordered[-1]}"
