"""berth-explain why: a decision in five lines for a ticket, or in words for a user without names of hosts."""

import argparse

from scheduler import errors
from scheduler.decisions import document, rendering
from scheduler.decisions.cause_code import CauseCode, ConstraintKind
from scheduler.decisions.document import Cause, Constraint, Decision, Error
from scheduler.decisions.failure_cause import code_of
from scheduler.decisions.rendering import first
from scheduler.logs import count_text
from scheduler.operators.app import flag
from scheduler.operators.explain.decision_commands import NAME, RecordedQuestion
from scheduler.operators.shown.shown import Head, Saying, Shown, Table, lines_of


class WhyCommand(RecordedQuestion):
    """Say in five lines why a request got its host or none, for a ticket, or with --user for the user."""

    arguments = (NAME, flag("--user", "say it without names of hosts and rules, for the user"))

    def show(self, args: argparse.Namespace) -> Shown | None:
        found = self.find_decision(args, args.name)
        if found is None:
            return None
        decision = found.decision
        lines = for_user(decision) if args.user else for_ticket(decision)
        cause = decision.cause
        document = {
            "request_id": decision.request_id,
            "result": decision.result,
            "cause": None if cause is None else str(cause.code),
            "lines": lines,
        }
        head = Head("Why", lines[0], time=decision.time, sayings=[Saying(line) for line in lines[1:]])
        return Shown(document, head, [Table(("Line",), [(line,) for line in lines], "Lines")])

    def emit(self, shown: Shown, args: argparse.Namespace) -> None:
        """Print the lines and nothing else: they are copied into a ticket or sent to a user."""
        if args.formatter == "table":
            for line in lines_of(shown.head):
                self._line(line)
        else:
            super().emit(shown, args)


def for_ticket(decision: Decision) -> list[str]:
    """Return five lines: what was requested, when, what became of it, why, and what helps."""
    zone = f", zone {decision.availability_zone}" if decision.availability_zone else ""
    project = f", project {decision.project_id}" if decision.project_id else ""
    wanted = f"{decision.kind} of {first(decision.instances, 1)}"
    cause = decision.cause
    if cause is not None:
        why, then = f"Cause: {cause.words} ({cause.code})", f"Remedy: {cause.remedy}"
    elif decision.error is not None:
        why, then = f"Cause: {decision.summary}", f"Remedy: {_of_error(decision.error)[1]}"
    else:
        first_one = [step for step in decision.filters if step.instance == decision.filters[0].instance]
        left = first_one[-1].end if first_one else decision.candidates.allowed or 0
        why = f"Cause: chosen of {count_text(left, 'host')} that met all that the request requires"
        then = "Remedy: none is needed; what failed later is in the log of nova-compute"
    flavor = f"flavor {rendering.flavor(decision.flavor)}{zone}{project}"
    return [
        f"Request {decision.request_id or 'without id'}: {wanted}, {flavor}",
        f"Decided: {decision.time}",
        f"Result: {rendering.result(decision)}",
        why,
        then,
    ]


def for_user(decision: Decision) -> list[str]:
    """Return the same for the user: no host, rule or reason of the operator is in it."""
    size = f"flavor {decision.flavor.name}" if decision.flavor.name else "the flavor"
    wanted = count_text(len(decision.instances), "instance")
    begin = f"Request {decision.request_id or 'without id'} for {wanted} of {size}"
    cause = decision.cause
    if decision.error is None:
        return [f"{begin} has got a place."]
    if cause is None:
        words, _, advice = _of_error(decision.error)
        return [f"{begin} was not served: {words}.", advice]
    words, advice = _in_this_case(decision.why, cause) or CauseCode.of_code(cause.code).for_users
    return [f"{begin} found no place: {words}.", advice]


def _of_error(error: Error) -> tuple[str, str, str]:
    """Return what users read of an error that is no refusal, what helps, and what users can do."""
    kind = getattr(errors, error.kind, errors.BerthError)
    if issubclass(kind, errors.CallerLeft):
        words = "nobody waited for it any more"
        return words, "None is needed: nobody waits for its instances.", "See the instance."
    if issubclass(kind, errors.DependencyUnavailable):
        again = "Try again when the dependency is available again."
        return "a part of the cloud was unavailable", again, "Try again."
    return "the cloud has a fault", "See the log line of the request with this error.", "Ask the operator."


def _in_this_case(why: document.Why | None, cause: Cause) -> tuple[str, str] | None:
    """Return what users read if not the whole cloud lacks room for one instance; None: what the code says."""
    if why is None or cause.code != CauseCode.RESOURCES:
        return None
    if why.placed:
        count = count_text(why.placed, "instance")
        return f"there is room for {count} of it", f"Request at most {count} at once, or a smaller flavor."
    if any(
        constraint.kind == ConstraintKind.GROUP and constraint.text == cause.subject
        for constraint in why.constraints
    ):
        return (
            "a device, bandwidth or accelerator that a port or the flavor requires is not free",
            "Try again later, or choose another port or flavor.",
        )
    full = sum(failing.hosts for failing in why.failing if any(map(_may_be_of_room, why.of(failing))))
    if full == why.hosts:
        return None
    return (
        "no place that the request allows has room for an instance of this size at the moment",
        "Choose a smaller flavor, require less (server, group, hints, zone), or try again later.",
    )


def _may_be_of_room(constraint: Constraint) -> bool:
    return constraint.kind == ConstraintKind.SEVERAL or code_of(constraint) is CauseCode.RESOURCES
