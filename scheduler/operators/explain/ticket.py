"""berth-explain why: a decision in five lines for a ticket, or in words for a user without names of hosts."""

import argparse

from scheduler.decisions import document, rendering
from scheduler.decisions.cause_code import CauseCode, ConstraintKind
from scheduler.decisions.document import Cause, Decision
from scheduler.decisions.failure_cause import code_of
from scheduler.logs import count_text
from scheduler.operators.app import flag
from scheduler.operators.explain import decision
from scheduler.operators.explain.decision_commands import NAME, RecordedQuestion
from scheduler.operators.shown.shown import Head, Saying, Shown, Table, lines_of


class WhyCommand(RecordedQuestion):
    """Say in five lines why a request got its host or none, for a ticket, or with --user for the user."""

    arguments = (NAME, flag("--user", "say it without names of hosts and rules, for the user"))

    def show(self, args: argparse.Namespace) -> Shown | None:
        found = self.find_decision(args, args.name)
        if found is None:
            return None
        made = found.decision
        lines = for_user(made) if args.user else for_ticket(made)
        document = {
            "request_id": made.request_id,
            "result": made.result,
            "cause": made.cause and made.cause.code,
            "lines": lines,
        }
        head = Head("Why", lines[0], time=made.time, sayings=[Saying(line) for line in lines[1:]])
        return Shown(document, head, [Table(("Line",), [(line,) for line in lines], "Lines")])

    def emit(self, shown: Shown, args: argparse.Namespace) -> None:
        """Print the lines and nothing else: they are copied into a ticket or sent to a user."""
        if args.formatter == "table":
            for line in lines_of(shown.head):
                self._line(line)
        else:
            super().emit(shown, args)


def for_ticket(of: Decision) -> list[str]:
    """Return five lines: what was requested, when, what became of it, why, and what helps."""
    zone = f", zone {of.availability_zone}" if of.availability_zone else ""
    project = f", project {of.project_id}" if of.project_id else ""
    lines = [f"{title}: {words}" for words, title, _ in decision.sayings(of)]
    if of.error is None:
        left = of.first_filters[-1].end if of.filters else of.candidates.allowed or 0
        lines += [
            f"Cause: chosen of {count_text(left, 'host')} that met all that the request requires",
            "Remedy: none is needed; what failed later is in the log of nova-compute",
        ]
    subject = f"{decision.subject(of)}, flavor {rendering.flavor(of.flavor)}{zone}{project}"
    return [subject, f"Decided: {of.time}", *lines]


def for_user(of: Decision) -> list[str]:
    """Return the same for the user: no host, rule or reason of the operator is in it."""
    size = f"flavor {of.flavor.name}" if of.flavor.name else "the flavor"
    wanted = count_text(len(of.instances), "instance")
    begin = f"Request {of.request_id or 'without id'} for {wanted} of {size}"
    cause = of.cause
    if of.error is None:
        return [f"{begin} has got a place."]
    if cause is None:
        words, _, advice = decision.of_error(of.error)
        return [f"{begin} was not served: {words}.", advice]
    words, advice = _in_this_case(of.why, cause) or CauseCode(cause.code).for_users
    return [f"{begin} found no place: {words}.", advice]


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
    full = sum(
        failing.hosts
        for failing in why.failing
        if any(
            one.kind == ConstraintKind.SEVERAL or code_of(one) is CauseCode.RESOURCES
            for one in why.of(failing)
        )
    )
    if full == why.hosts:
        return None
    return (
        "no place that the request allows has room for an instance of this size at the moment",
        "Choose a smaller flavor, require less (server, group, hints, zone), or try again later.",
    )
