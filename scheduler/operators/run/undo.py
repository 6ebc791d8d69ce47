"""Letting the hosts of a run get instances again. Nothing is moved."""

from typing import Any

from scheduler.logs import count_text
from scheduler.operators.run import report
from scheduler.operators.run.journal import UNDO, Journal
from scheduler.operators.run.nova_api import NovaApi
from scheduler.operators.run.one_move import Reader
from scheduler.operators.run.runner import Outcome
from scheduler.operators.run.step import MOVED
from scheduler.operators.shown.shown import BAD, GOOD, Head, Saying, Shown

ENABLED, KEPT = "enabled", "kept"


def undo(nova: NovaApi, reader: Reader, journal: Journal, kind: str) -> dict[str, Any]:
    """Enable the hosts that a run disabled, and return what it had moved, as a document.

    A host that was not disabled by the run, or was disabled again for another reason, is left as it is.

    Raises:
        Surprise: Nova cannot be read.
        ApiError: Nova does not enable a host.
    """
    history = journal.history
    services = []
    for host in history.hosts:
        service = reader.read(nova.service, host)
        if service is None:
            services.append((host, KEPT, "nova has no nova-compute on it"))
        elif service.enabled:
            services.append((host, KEPT, "it is enabled"))
        elif history.disabled.get(host) != service.reason:
            services.append((host, KEPT, f"it is disabled for another reason: {service.reason or 'none'}"))
        else:
            nova.enable(service)
            services.append((host, ENABLED, "" if service.up else "but it is down"))
    found = report.document(
        kind, str(journal.path), history, Outcome(UNDO, steps=list(history.steps.values()))
    )
    found["services"] = [
        {"host": host, "result": result, "why": why or None} for host, result, why in services
    ]
    if all(result == ENABLED or why == "it is enabled" for _, result, why in services):
        journal.write(UNDO)
    return found


def shown(found: dict[str, Any], status: int) -> Shown:
    """Return what was undone as it is shown.

    Args:
        status: The exit status of the command.
    """
    sayings = [
        Saying(f"{one['host']}: {one['result']}" + (f", {one['why']}" if one["why"] else ""))
        for one in found["services"]
    ]
    moved = [one for one in found["moves"] if one["state"] == MOVED]
    stay = "instance was moved and stays where it is", "instances were moved and stay where they are"
    head = Head("Run undone", count_text(len(moved), *stay), BAD if status else GOOD, sayings=sayings)
    return Shown(found, head, [report.moves_table(moved)], status=status)
