"""A decision as plain values: what is written to disk, and what is shown (see doc/source/explain.rst)."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from scheduler.claims.events import ClaimEvent
from scheduler.explain.record import DecisionRecord, HostData, Round
from scheduler.explain.replay import Replay
from scheduler.request.scheduling_request import RequestKind, SchedulingRequest

#: The version of the schema; it grows if a key changes its meaning or goes away.
VERSION = 1

#: Hosts of each filter that are asked for their reason, and hosts that are named for each reason.
ASKED = 500
NAMED = 20

KINDS = {RequestKind.BUILD: "build", RequestKind.REBUILD_CHECK: "rebuild check"}
AMOUNTS = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")


def document(record: DecisionRecord) -> dict[str, Any]:
    """Return a record that is complete as values that JSON has."""
    error = record.error
    return {
        "version": VERSION,
        "time": datetime.fromtimestamp(record.started_at, UTC).isoformat(timespec="milliseconds"),
        "request_id": record.request_id,
        **_request(record.request),
        "result": "failed" if error else "scheduled",
        "error": {"class": error[0], "text": error[1]} if error else None,
        "summary": record.summary,
        "queries": list(record.queries),
        "candidates": _candidates(record),
        "filters": _filters(record.hosts, record),
        "best": [
            {
                "host": one.host,
                "node": one.node,
                "total": one.total,
                "weights": [
                    {
                        "weigher": each.weigher,
                        "raw": each.raw,
                        "normalised": each.normalised,
                        "multiplier": each.multiplier,
                        "weighted": each.weighted,
                    }
                    for each in one.weights
                ],
            }
            for one in record.best
        ],
        "claims": {uuid: [_event(event) for event in events] for uuid, events in record.claims.items()},
        "chosen": [
            {
                "instance": one.instance_uuid,
                "host": _place(one.host),
                "alternates": [_place(other) for other in one.alternates],
            }
            for one in record.chosen
        ],
        "milliseconds": {stage: round(seconds * 1000, 3) for stage, seconds in record.times.items()},
    }


def _request(request: SchedulingRequest) -> dict[str, Any]:
    spec, flavor = request.spec, request.flavor
    return {
        "kind": KINDS[request.kind],
        "project_id": spec.project_id if "project_id" in spec else None,
        "instances": list(request.instance_uuids),
        "flavor": {
            "name": flavor.name if "name" in flavor else None,
            **{name: getattr(flavor, name) for name in AMOUNTS if name in flavor},
            "extra_specs": dict(request.extra_specs),
        },
        "availability_zone": spec.availability_zone if "availability_zone" in spec else None,
    }


def _candidates(record: DecisionRecord) -> dict[str, Any]:
    found = record.candidates
    return {
        "source": found.name,
        "age": round(found.age, 3),
        "hosts": found.offered,
        "known": found.known,
        "allowed": record.allowed,
        "truncated": found.truncated,
        "reason": found.reason,
    }


def _filters(data: HostData | None, record: DecisionRecord) -> list[dict[str, Any]]:
    """Return what the filters did, instance by instance; the counts of the last one if no more is known."""
    if data is None:
        return [
            {
                "instance": None,
                "filter": count.name,
                "start": count.start,
                "end": count.end,
                "asked": sum(each.count for each in record.rejections if each.filter == count.name),
                "rejected": [
                    {"reason": each.reason, "count": each.count, "hosts": list(each.hosts)}
                    for each in record.rejections
                    if each.filter == count.name
                ],
            }
            for count in record.last_counts
        ]
    replay = Replay(data)
    return [
        entry
        for number, this in enumerate(data.rounds)
        if not number or this.moment is not None
        for entry in _round(replay, number, this)
    ]


def _round(replay: Replay, number: int, this: Round) -> Iterable[dict[str, Any]]:
    for step, found in replay.rejected(number, ASKED):
        names: defaultdict[str, list[str]] = defaultdict(list)
        for row, reason in found:
            names[reason].append(row.host)
        yield {
            "instance": this.instance_uuid,
            "filter": step.rule.name,
            "start": step.start,
            "end": step.end,
            "asked": len(found),
            "rejected": [
                {"reason": reason, "count": len(names[reason]), "hosts": names[reason][:NAMED]}
                for reason in sorted(names, key=lambda reason: -len(names[reason]))
            ],
        }


def _event(event: ClaimEvent) -> dict[str, Any]:
    return {
        "attempt": event.attempt,
        "host": event.host,
        "status": event.status,
        "cause": event.cause,
        "next_step": str(event.next_step),
    }


def _place(names: tuple[str, str]) -> dict[str, str]:
    return {"host": names[0], "node": names[1]}
