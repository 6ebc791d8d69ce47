"""The cause of a failed request: one of a few codes, a sentence, and a remedy.

It is computed from the document of the decision. Metrics count requests by code; terminal and page show the
sentence. An outage is no cause: requests that an outage ends do not fail with NoValidHost.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from scheduler.claims.claims import TOO_LATE
from scheduler.decisions import rendering
from scheduler.decisions.cause_code import CauseCode, ConstraintKind
from scheduler.decisions.document import (
    EXCLUDED,
    FAILED,
    Candidates,
    Constraint,
    Decision,
    Entry,
    Failing,
    Reason,
    Why,
    decode,
)
from scheduler.decisions.remedies import for_fewer, is_pci, remedy_of
from scheduler.decisions.summary import is_no_valid_host, is_unspecific
from scheduler.decisions.why_not import failing_text, instance_text
from scheduler.logs import count_text


class FailureCause(NamedTuple):
    """Why a request failed.

    Attributes:
        code: The code, by which requests are counted.
        subject: A constraint of the query, or the name of a filter: the same for requests that fail for the
            same reason; "" if the code says all.
        words: The cause of this request, in one line.
        special: What helps in this case, if that is not what helps in general.
    """

    code: CauseCode
    subject: str
    words: str
    special: str = ""

    @property
    def remedy(self) -> str:
        """What helps in this case."""
        return self.special or self.code.remedy


#: If several constraints are failed alone, the first of these counts: suitable hosts that are only disabled,
#: then suitable hosts without room, then those that Placement does not know well, before other hosts; hosts
#: that the request itself rules out come last.
_FIRST = (CauseCode.DISABLED, CauseCode.RESOURCES, CauseCode.CLAIMS, CauseCode.PROVIDER)
_LAST = (CauseCode.EXCLUDED, CauseCode.CELL, CauseCode.HOST)

#: Sets of constraints that are named in one line.
NAMED_SETS = 3


def cause_of(decision: Decision) -> FailureCause | None:
    """Return why a request found no valid host; None if it found one, or ended with another error."""
    error, found = decision.error, decision.candidates
    if error is None or not is_no_valid_host(error):
        return None
    if TOO_LATE in error.text:
        return FailureCause(CauseCode.LATE, "", f"hosts were chosen, but {TOO_LATE}")
    if not is_unspecific(error):
        text = error.text.removeprefix("No valid host was found. ").strip()
        return FailureCause(CauseCode.REQUEST, text, text)
    return next(chain(_of_candidates(found, decision), _of_why(decision), _of_hosts(decision)))


def _of_candidates(found: Candidates, decision: Decision) -> Iterator[FailureCause]:
    """Yield why there was no host to filter, where that is not for each host to say."""
    if found.hosts and not found.known and not (decision.why and decision.why.failing):
        words = f"none of {count_text(found.hosts, 'host')} is known in a cell that takes part"
        yield FailureCause(CauseCode.UNKNOWN_HOSTS, "", words)
    elif decision.why is None and found.origin == "placement" and not found.hosts:
        # claims on hosts of the mirror, before the query to Placement
        yield from _of_claims(decision)
        yield FailureCause(CauseCode.NOT_OFFERED, "", "Placement offers no host")
    elif decision.why is None and not found.allowed:
        excluded = [each for each in decision.verdicts if each.outcome == EXCLUDED]
        reason = max(excluded, key=lambda each: each.count).reason if excluded else ""
        words = f"the request excludes {count_text(found.known or 0, 'host')}"
        yield FailureCause(CauseCode.EXCLUDED, "", f"{words}: {reason}" if reason else words)


def _of_why(decision: Decision) -> Iterator[FailureCause]:
    """Yield the constraint that hosts fail alone, if there is one; otherwise the smallest sets."""
    why = decision.why
    if why is None:
        return
    if not why.hosts and not why.suitable:
        yield FailureCause(CauseCode.NOT_OFFERED, "", "no compute node is known")
    if why.suitable:
        hosts = count_text(why.suitable, "host")
        yield FailureCause(
            CauseCode.CHANGED, "", f"{hosts} would be suitable now: the cloud has changed since"
        )
    alone = sorted(((code_of(one, each), one, each) for one, each in why.alone()), key=_rank)
    for code, constraint, failing in alone[:1]:
        lines = [*_of_named_host(why, code), failing_text(why, failing)]
        lines += [failing_text(why, each) for each in why.failing if each is not failing]
        special = remedy_of(why, constraint, failing, kind=decision.kind)
        if why.placed and constraint.kind != ConstraintKind.AMOUNT:
            special = for_fewer(why.placed, special or code.remedy)
        yield FailureCause(code, constraint.text, _in_words(why, lines), special)
    if why.failing:
        lines = [failing_text(why, each) for each in why.failing]
        constraints = why.of(why.failing[0])
        amounts = all(one.kind in {ConstraintKind.AMOUNT, ConstraintKind.SEVERAL} for one in constraints)
        known = any(one.kind == ConstraintKind.AMOUNT for one in constraints)
        code = CauseCode.RESOURCES if amounts and known else CauseCode.COMBINATION
        subject = " and ".join(one.text for one in constraints)
        yield FailureCause(code, subject, _in_words(why, lines))


def _rank(one: tuple[CauseCode, Constraint, Failing]) -> tuple[int, int]:
    code, _, failing = one
    first = _FIRST.index(code) if code in _FIRST else len(_FIRST)
    return first + 1 + (_LAST.index(code) if code in _LAST else -1), -failing.hosts


def _in_words(why: Why, lines: Sequence[str]) -> str:
    shown = list(dict.fromkeys(lines))[:NAMED_SETS]
    return "; ".join(filter(None, (instance_text(why), *shown)))


def _of_named_host(why: Why, code: CauseCode) -> Iterator[str]:
    """Yield what the host that the request names fails: that others suit is of little use then."""
    if code is CauseCode.HOST:
        for each in why.failing:
            if not any(one.kind == ConstraintKind.HOST for one in why.of(each)):
                yield failing_text(why, each)


def code_of(constraint: Constraint, failing: Failing) -> CauseCode:
    """Return the cause for a constraint that hosts fail alone."""
    reasons = failing.first_reasons
    return code_of_constraint(constraint, reasons[0].text if reasons else "")


def code_of_constraint(constraint: Constraint, reason: str = "") -> CauseCode:
    if constraint.kind == ConstraintKind.FILTER:
        return code_of_filter(constraint.filter, reason)
    if is_pci(constraint):
        return CauseCode.PCI
    return CauseCode.of_kind(constraint.kind)


def _of_hosts(decision: Decision) -> Iterator[FailureCause]:
    """Yield why no host could be chosen."""
    stages = [stage for stage in rendering.funnel(decision) if stage.kind == "filter"]
    if stages and not stages[-1].end:
        yield _of_filters(stages)
    yield from _of_claims(decision)
    yield FailureCause(CauseCode.CLAIMS, "", "hosts passed, but no claim was made on them")


def _of_filters(stages: Sequence[rendering.Stage]) -> FailureCause:
    """Return the filter that rejected most hosts in the last round; the last of equal ones."""
    rounds: list[rendering.Stage] = []
    for stage in reversed(stages):
        if rounds and (stage.instance, stage.end) != (rounds[-1].instance, rounds[-1].start):
            break
        rounds.append(stage)
    worst = max(rounds, key=lambda stage: (stage.start or 0) - stage.end)
    entered = worst.start or 0
    reason = worst.causes[0].reason if worst.causes else ""
    words = f"{worst.name} rejected {entered - worst.end} of {count_text(entered, 'host')}"
    code = code_of_filter(worst.name, reason)
    return FailureCause(code, worst.name, f"{words}: {reason}" if reason else words)


def code_of_filter(name: str, reason: str) -> CauseCode:
    """Return the cause for a filter that rejected hosts for this reason."""
    code = CauseCode.of_filter(name)
    if code is CauseCode.COMPUTE_DOWN and reason.startswith("service disabled"):
        return CauseCode.DISABLED
    return code


def _of_claims(decision: Decision) -> Iterator[FailureCause]:
    if lost := decision.refused_claims:
        words = (
            f"{count_text(len(lost), 'claim')} refused, the last on host {lost[-1].host}: {lost[-1].cause}"
        )
        yield FailureCause(CauseCode.CLAIMS, "", words)


def remedy_of_constraint(constraint: Constraint, reasons: Sequence[Reason] = ()) -> str:
    """Return what helps one host that fails a constraint."""
    alone = Why(1, constraints=[constraint])
    special = remedy_of(alone, constraint, Failing([0], 1, reasons=[list(reasons)]), "build")
    return special or code_of_constraint(constraint, reasons[0].text if reasons else "").remedy


# -- lists -----------------------------------------------------------------------------------------------


def list_values(entry: Entry, encoded: bytes) -> dict[str, Any]:
    """Return a decision as one entry of a list; its ``cause`` is null unless it found no valid host."""
    decision = decode(encoded) if entry.result == FAILED else None
    error = decision and decision.error
    found = decision and cause_of(decision)
    return {
        **entry.values(),
        "error": error and error.kind,
        "cause": found
        and {"code": found.code, "subject": found.subject, "words": found.words, "remedy": found.remedy},
    }
