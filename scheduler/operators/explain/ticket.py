"""berth-explain why: a decision in five lines for a ticket, or in words for a user without names of hosts."""

import argparse
from collections.abc import Mapping

from scheduler.decisions import rendering
from scheduler.decisions.cause_code import CauseCode
from scheduler.decisions.document import Decision
from scheduler.decisions.failure_cause import cause_of
from scheduler.decisions.rendering import first
from scheduler.logs import count_text
from scheduler.operators.explain.decision_commands import RecordedQuestion
from scheduler.operators.shown.shown import Head, Saying, Shown, Table, lines_of

#: What a user reads of each cause, and what helps. No host, rule or aggregate of the operator is named.
FOR_USERS: Mapping[CauseCode, tuple[str, str]] = {
    CauseCode.DISABLED: (
        "the suitable servers of the cloud are under maintenance",
        "Try again later.",
    ),
    CauseCode.RESOURCES: (
        "the cloud has no room for an instance of this size at the moment",
        "Choose a smaller flavor or another availability zone, or try again later.",
    ),
    CauseCode.TRAIT: (
        "the cloud has no room where the features are that the flavor or the image requires",
        "Choose another flavor or image.",
    ),
    CauseCode.AGGREGATE: (
        "the part of the cloud for this flavor or project has no suitable place",
        "Choose another flavor, or ask the operator.",
    ),
    CauseCode.HOST: ("the requested server is not suitable", "Do not name a server."),
    CauseCode.AVAILABILITY_ZONE: (
        "the availability zone has no suitable place",
        "Choose another availability zone, or none.",
    ),
    CauseCode.CELL: (
        "the part of the cloud in which the instance is has no suitable place",
        "Ask the operator.",
    ),
    CauseCode.COMBINATION: (
        "no place meets all that the flavor, the image and the request require together",
        "Require less: another flavor or image, fewer hints, another availability zone.",
    ),
    CauseCode.CHANGED: ("there was no suitable place at that moment", "Try again."),
    CauseCode.REQUEST: (
        "the request names something that does not exist or does not fit together",
        "Check flavor, image, ports and hints.",
    ),
    CauseCode.EXCLUDED: (
        "the request excludes all places that would be suitable",
        "Name no server, and exclude fewer.",
    ),
    CauseCode.SERVER_GROUP: (
        "the policy of the server group allows no further place",
        "Use a group with a soft policy, or fewer members.",
    ),
    CauseCode.NUMA: (
        "no server has CPUs and memory in the arrangement that the flavor requires",
        "Choose a smaller flavor, or one without such requirements.",
    ),
    CauseCode.PCI: (
        "all devices of the kind that the flavor or a port requires are in use",
        "Try again later, or choose a flavor without such devices.",
    ),
    CauseCode.CAPABILITIES: (
        "no server supports what the image or the flavor requires",
        "Choose another image or flavor.",
    ),
    CauseCode.HINT: ("the scheduler hint allows no place", "Correct the hint, or leave it out."),
    CauseCode.LOAD: ("the suitable servers are busy", "Try again in some minutes."),
    CauseCode.CLAIMS: ("other requests took the last suitable places", "Try again."),
    CauseCode.LATE: ("the cloud was too busy to answer in time", "Try again."),
}

#: Causes that only the operator can do something about.
OF_OPERATOR = ("the cloud is not set up completely for this request", "Ask the operator.")


class Why(RecordedQuestion):
    """Say in five lines why a request got its host or none, for a ticket, or with --user for the user."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "name", metavar="REQUEST_ID|INSTANCE_UUID", help="its latest decision is explained"
        )
        parser.add_argument(
            "--user", action="store_true", help="say it without names of hosts and rules, for the user"
        )
        return parser

    def show(self, args: argparse.Namespace) -> Shown | None:
        found = self.find_decision(args, args.name)
        if found is None:
            return None
        decision = found.decision
        lines = for_user(decision) if args.user else for_ticket(decision)
        cause = cause_of(decision)
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
    found = cause_of(decision)
    if found is not None:
        why, then = f"Cause: {found.words} ({found.code})", f"Remedy: {found.remedy}"
    elif decision.error is not None:
        why, then = f"Cause: {decision.summary}", "Remedy: Try again when the dependency is available again."
    else:
        hosts = count_text(decision.candidates.allowed or 0, "host")
        why = f"Cause: best weight of {hosts} that Placement offers and the request allows"
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
    found = cause_of(decision)
    if decision.error is None:
        return [f"{begin} has got a place."]
    if found is None:
        return [f"{begin} was not served: a part of the cloud was unavailable.", "Try again."]
    words, advice = FOR_USERS.get(found.code, OF_OPERATOR)
    return [f"{begin} found no place: {words}.", advice]
