"""berth-explain waiting: the requests in progress, and what each of them waits for."""

import argparse
from collections.abc import Mapping, Sequence
from operator import itemgetter

import msgspec

from scheduler.decisions.open_requests import MOST_LISTED, OpenRequest
from scheduler.operators.explain.decision_commands import Question
from scheduler.operators.shown.shown import Columns, Head, Saying, Shown, Table, table


class WaitingCommand(Question):
    """List the requests in progress of all schedulers, the oldest first, and what each of them waits for."""

    def show(self, args: argparse.Namespace) -> Shown:
        answers = {
            host: msgspec.convert(answer, list[OpenRequest])
            for host, answer in self.ask(args, "waiting").items()
        }
        found = [(host, request) for host, requests in answers.items() for request in requests]
        found.sort(key=lambda one: -one[1].age)
        document = [{"scheduler": host, **msgspec.to_builtins(request)} for host, request in found]
        head = Head("Requests in progress", sayings=[Saying(line) for line in head_lines(answers)])
        return Shown(document, head, [requests_table(found)])


def head_lines(answers: Mapping[str, Sequence[OpenRequest]]) -> list[str]:
    """Return how many requests there are, and which schedulers have more than they list."""
    total = sum(map(len, answers.values()))
    full = [host for host, requests in answers.items() if len(requests) >= MOST_LISTED]
    lines = [f"Requests in progress: {total} (schedulers asked: {', '.join(sorted(answers))})"]
    if full:
        lines.append(f"Only the {MOST_LISTED} oldest are listed of: {', '.join(sorted(full))}")
    return lines


def requests_table(found: Sequence[tuple[str, OpenRequest]]) -> Table:
    columns: Columns = {
        "Age (s)": lambda one: f"{one[1].age:.1f}",
        "Step": lambda one: one[1].step,
        "Waits for": lambda one: one[1].waits_for,
        "Waits (s)": lambda one: f"{one[1].waited:.1f}" if one[1].waits_for else "",
        "Request": lambda one: one[1].request_id,
        "Instances": lambda one: one[1].instances_text,
        "Scheduler": itemgetter(0),
    }
    return table(found, columns, "The oldest first", numbers=("Age (s)", "Waits (s)"), searched=bool(found))
