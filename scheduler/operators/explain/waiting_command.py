"""berth-explain waiting: the requests in progress, and what each of them waits for."""

import argparse
from collections.abc import Mapping, Sequence

import msgspec

from scheduler.decisions.open_requests import MOST_LISTED, OpenRequest
from scheduler.operators.explain.decision_commands import Question
from scheduler.operators.shown.shown import Head, Saying, Shown, Table


class Waiting(Question):
    """List the requests in progress of all schedulers, the oldest first, and what each of them waits for."""

    def show(self, args: argparse.Namespace) -> Shown:
        answers = {
            worker: msgspec.convert(answer, list[OpenRequest])
            for worker, answer in self.ask(args, "waiting").items()
        }
        found = [(worker, request) for worker, requests in answers.items() for request in requests]
        found.sort(key=lambda one: -one[1].age)
        document = [{"scheduler": worker, **msgspec.to_builtins(request)} for worker, request in found]
        head = Head("Requests in progress", sayings=[Saying(line) for line in head_lines(answers)])
        return Shown(document, head, [table(found)], narrow_table(found))


def head_lines(answers: Mapping[str, Sequence[OpenRequest]]) -> list[str]:
    """Return how many requests there are, and which workers have more than they list."""
    total = sum(map(len, answers.values()))
    full = [worker for worker, requests in answers.items() if len(requests) >= MOST_LISTED]
    lines = [f"Requests in progress: {total} (workers asked: {', '.join(sorted(answers))})"]
    if full:
        lines.append(f"Only the {MOST_LISTED} oldest are listed of: {', '.join(sorted(full))}")
    return lines


def table(found: Sequence[tuple[str, OpenRequest]]) -> Table:
    rows = [
        (
            f"{request.age:.1f}",
            request.step,
            request.waits_for,
            f"{request.waited:.1f}" if request.waits_for else "",
            request.request_id,
            request.instances_text,
            worker,
        )
        for worker, request in found
    ]
    columns = ("Age (s)", "Step", "Waits for", "Waits (s)", "Request", "Instances", "Scheduler")
    return Table(columns, rows, "The oldest first", numbers=("Age (s)", "Waits (s)"), searched=bool(rows))


def narrow_table(found: Sequence[tuple[str, OpenRequest]]) -> Table:
    rows = []
    for worker, request in found:
        waits = f", waits {request.waited:.1f} s for {request.waits_for}" if request.waits_for else ""
        request_id = request.request_id or request.instances_text
        rows.append((f"{request.age:.1f}", (request_id, f"{request.step}{waits}", worker)))
    return Table(("Age (s)", "Request"), rows)
