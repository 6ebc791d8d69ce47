"""berth-explain waiting: the requests in progress, and what each of them waits for."""

import argparse
from collections.abc import Mapping, Sequence

import msgspec

from scheduler.decisions.open_requests import MOST_LISTED, OpenRequest
from scheduler.operators.command.tables import Table
from scheduler.operators.explain.decision_commands import Question, Shown


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
        return Shown(document, head_lines(answers), [table(found)], narrow_table(found))


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
    return ("Age (s)", "Step", "Waits for", "Waits (s)", "Request", "Instances", "Scheduler"), rows


def narrow_table(found: Sequence[tuple[str, OpenRequest]]) -> Table:
    rows = []
    for worker, request in found:
        waits = f", waits {request.waited:.1f} s for {request.waits_for}" if request.waits_for else ""
        request_id = request.request_id or request.instances_text
        rows.append((f"{request.age:.1f}", (request_id, f"{request.step}{waits}", worker)))
    return ("Age (s)", "Request"), rows
