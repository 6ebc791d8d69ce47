"""The reason for a failed request in one line, for the log and for explanations."""

from collections.abc import Iterator, Sequence

from scheduler.decisions.document import Candidates, Decision, Error, Step
from scheduler.decisions.why_not import instance_text, texts
from scheduler.logs import count_text
from scheduler.selection.host_claiming import NOT_ENOUGH

#: Texts of errors that add nothing to the rest of the line.
_UNSPECIFIC = tuple(f"No valid host was found. {reason}" for reason in ("", NOT_ENOUGH))

#: Sets of failed constraints that are named.
NAMED_SETS = 2

SOURCES = {
    "placement": "Placement",
    "coalesced": "Placement",
    "mirror": "the mirror",
    "table": "the host table",
    "held": "an earlier delivery",
}


def summarize(decision: Decision, last: Sequence[Step], left: int | None) -> str:
    """Return what left a request without a host, such as 'Placement offers 12 hosts; RamFilter ...'.

    Args:
        last: The filters of the instance that was decided last.
        left: The number of hosts that passed them; None if there were no hosts to filter.
    """
    parts = [
        *_candidates(decision.candidates),
        *_filters(decision, last, left),
        *_claims(decision),
    ]
    if decision.why and (left or not decision.candidates.hosts or decision.why.placed):
        parts += filter(None, (instance_text(decision.why), *texts(decision.why, NAMED_SETS)))
    error = decision.error
    if error and not is_unspecific(error):
        text = error.text.strip()
        parts.append(text if is_no_valid_host(error) else f"{error.kind}: {text}")
    return "; ".join(parts) or "there was no host to filter"


def is_no_valid_host(error: Error) -> bool:
    return error.kind in {"NoValidHost", "RequestFilterFailed"}


def is_unspecific(error: Error) -> bool:
    """Return whether the text of an error says only that there is no valid host."""
    return error.text in _UNSPECIFIC


def with_summary(text: str, summary: str) -> str:
    """Return the text of an error and the summary of its decision; one of them if it has the other."""
    text = text.strip()
    if summary in text:
        return text
    return summary if text in summary else f"{text} {summary}"


def _candidates(found: Candidates) -> Iterator[str]:
    if not found.source:
        return
    source = SOURCES[found.source]
    if found.failed:
        yield f"{source} gives no usable answer ({found.reason})"
    elif not found.hosts:
        yield f"{source} offers no host" + (f" ({found.reason})" if found.reason else "")
    else:
        yield f"{source} offers {count_text(found.hosts, 'host')}"
        if found.known is not None and found.known < found.hosts:
            known = f"only {found.known} of them are" if found.known else "none of them is"
            yield f"{known} known in a cell that is enabled, readable and wanted"
    if found.allowed is not None and found.known is not None and found.allowed < found.known:
        left = f"{found.allowed} of them" if found.allowed else "none of them"
        yield f"the requested destination, ignored and forced hosts leave {left}"


def _filters(decision: Decision, last: Sequence[Step], left: int | None) -> Iterator[str]:
    first = len(decision.filters) - len(last)
    for number, step in enumerate(last, first):
        if step.end == step.start:
            continue
        verdicts = [each for each in decision.verdicts if each.step == number and each.reason]
        reasons = [each.reason for each in sorted(verdicts, key=lambda each: -each.count)]
        detail = ", ".join(reasons[:2]) + (", ..." if len(reasons) > 2 else "")
        yield f"{step.filter} rejected {step.start - step.end}" + (f" ({detail})" if detail else "")
    if left and decision.filters:
        yield f"{count_text(left, 'host')} passed the filters"
    elif left:
        yield f"{count_text(left, 'host')} allowed, without filters"


def _claims(decision: Decision) -> Iterator[str]:
    if lost := decision.refused_claims:
        count = count_text(len(lost), "claim was", "claims were")
        yield f"{count} refused, the last on host {lost[-1].host}: {lost[-1].cause}"
