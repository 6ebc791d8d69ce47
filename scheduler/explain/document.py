"""A decision as plain values: what is written to disk, and what is shown (see doc/source/explain.rst)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from scheduler.explain.record import DecisionRecord, HostData, RankedHost, Rejection
from scheduler.explain.relaxation import NOTHING_HELPS
from scheduler.explain.replay import Replay, StepRejections
from scheduler.explain.requested import requested
from scheduler.explain.unoffered import Unoffered
from scheduler.placement.claim_events import ClaimEvent
from scheduler.request.scheduling_request import RequestKind, SchedulingRequest

#: The version of the schema; it grows if a key changes its meaning or goes away.
VERSION = 1

#: Hosts of each filter that are asked for their reason, and hosts that are named for each reason.
ASKED = 500
NAMED = 20

#: Sources of candidates that do not name hosts which Placement knows to be disabled.
ASKED_OF_PLACEMENT = frozenset({"placement", "coalesced", "mirror"})

KINDS = {RequestKind.BUILD: "build", RequestKind.REBUILD_CHECK: "rebuild check"}
Rejections = list[list[StepRejections]]
"""What each filter turned down, by round of filtering."""

AMOUNTS = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")


def document(record: DecisionRecord, rejections: Rejections | None = None) -> dict[str, Any]:
    """Return a record that is complete as values that JSON has.

    Args:
        record: The record.
        rejections: What ``rejections_of`` returned, if more hosts were asked for their reasons than usual.
    """
    error = record.error
    return {
        "version": VERSION,
        "time": time_text(record.started_at),
        "request_id": record.request_id,
        **_request(record.request),
        "requested": requested(record.request),
        "notes": list(record.request.counts.notes),
        "result": "failed" if record.error else "scheduled",
        "partition": record.partition or None,
        "error": {"class": error[0], "text": error[1]} if error else None,
        "summary": record.summary,
        "queries": list(record.queries),
        "candidates": _candidates(record),
        "excluded": [_rejection(each) for each in record.excluded],
        "filters": _filters(record, rejections),
        "best": [
            {"host": one.host, "node": one.node, "total": one.total, "weights": weight_values(one)}
            for one in record.best
        ],
        "claims": {uuid: [event_values(event) for event in events] for uuid, events in record.claims.items()},
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


def entry(record: DecisionRecord) -> dict[str, Any]:
    """Return a record as one entry of a list of decisions."""
    return {
        "time": time_text(record.started_at),
        "request_id": record.request_id,
        **_request(record.request),
        "result": "failed" if record.error else "scheduled",
        "summary": "; ".join(filter(None, (record.summary, *relaxed_texts(_candidates(record))))),
        "hosts": [one.host[0] for one in record.chosen],
        "milliseconds": round(record.times.get("total", 0.0) * 1000, 3),
    }


def entry_of(decision: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of ``document`` as one entry of a list of decisions."""
    kept = "time request_id kind project_id instances flavor availability_zone result summary".split()
    return {
        **{name: decision[name] for name in kept},
        "hosts": [one["host"]["host"] for one in decision["chosen"]],
        "milliseconds": decision["milliseconds"].get("total", 0.0),
    }


def time_text(seconds: float) -> str:
    """Return a time in UTC, to the millisecond, from seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


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
    found, data = record.candidates, record.hosts
    disabled = _disabled(data) if data is not None and found.name in ASKED_OF_PLACEMENT else []
    return {
        "source": found.name,
        "age": round(found.age, 3),
        "requests": found.requests,
        "hosts": found.offered,
        "known": found.known,
        "allowed": record.allowed,
        "truncated": found.truncated,
        "reason": found.reason,
        "disabled": {"count": len(disabled), "hosts": disabled[:NAMED]},
        "relaxed": [each.values() for each in record.relaxed],
        "relaxed_at": time_text(record.relaxed_at) if record.relaxed_at else None,
    }


def _disabled(data: HostData) -> list[str]:
    """Return the hosts that Placement does not offer since their services are disabled."""
    rows = Unoffered(data.table, data.request).disabled(data.rows.tolist())
    return [data.table.rows[row].host for row in rows]


def relaxed_texts(candidates: Mapping[str, Any]) -> list[str]:
    """Return what was found out about an empty answer of Placement; nothing before that."""
    texts = [each["text"] for each in candidates.get("relaxed", ())]
    return texts or ([NOTHING_HELPS] if candidates.get("relaxed_at") else [])


def rejections_of(replay: Replay, data: HostData, asked: int | None = None) -> Rejections:
    """Return what filters turned down, by round.

    Args:
        replay: Explains single hosts.
        data: What it explains.
        asked: Hosts of each filter that are asked for their reason; None: all.
    """
    return [list(replay.rejections(number, asked)) for number in range(len(data.rounds))]


def _filters(record: DecisionRecord, rejections: Rejections | None) -> list[dict[str, Any]]:
    """Return what the filters did, instance by instance; the counts of the last one if no more is known."""
    data = record.hosts
    if data is None:
        return list(_sampled_filters(record))
    replay = Replay(data)
    found = rejections_of(replay, data, ASKED) if rejections is None else rejections
    kept = [
        {
            "instance": this.instance_uuid,
            "filter": each.step.rule.name,
            "start": each.step.start,
            "end": each.step.end,
            "asked": len(each.reasons),
            "rejected": _grouped(replay, each),
        }
        for number, (this, steps) in enumerate(zip(data.rounds, found, strict=True))
        if not number or this.moment is not None
        for each in steps
    ]
    return [*kept, *_sampled_filters(record)] if record.later_counts else kept


def _sampled_filters(record: DecisionRecord) -> Iterator[dict[str, Any]]:
    for count in record.last_counts:
        sampled = [each for each in record.rejections if each.filter == count.name]
        yield {
            "instance": None,
            "filter": count.name,
            "start": count.start,
            "end": count.end,
            "asked": sum(each.count for each in sampled),
            "rejected": [_rejection(each) for each in sampled],
        }


def _rejection(each: Rejection) -> dict[str, Any]:
    return {"reason": each.reason, "count": each.count, "hosts": list(each.hosts)}


def _grouped(replay: Replay, each: StepRejections) -> list[dict[str, Any]]:
    names: defaultdict[str, list[str]] = defaultdict(list)
    for position, reason in zip(each.positions.tolist(), each.reasons, strict=False):
        names[reason].append(replay.row(position).host)
    return [
        {"reason": reason, "count": len(names[reason]), "hosts": names[reason][:NAMED]}
        for reason in sorted(names, key=lambda reason: -len(names[reason]))
    ]


def weight_values(one: RankedHost) -> list[dict[str, Any]]:
    """Return what each weigher says of one of the best hosts."""
    return [
        {
            "weigher": each.weigher,
            "raw": each.raw,
            "normalised": each.normalised,
            "multiplier": each.multiplier,
            "weighted": each.weighted + 0.0,  # no -0.0
        }
        for each in one.weights
    ]


def event_values(event: ClaimEvent) -> dict[str, Any]:
    """Return one step of a claim."""
    return {
        "attempt": event.attempt,
        "host": event.host,
        "status": event.status,
        "cause": event.cause,
        "next_step": str(event.next_step),
        "ended": event.ended,
        "granted": event.granted,
    }


def _place(names: tuple[str, str]) -> dict[str, str]:
    return {"host": names[0], "node": names[1]}
