"""All failures of one kind after the other: of a host, of a failure domain, of a zone.

For a change board: how many of each kind would be survived, and what would be lost of each flavor.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from scheduler.operators.plan.moves import Document
from scheduler.operators.plan.survive import (
    MOST_REPORTED,
    Answer,
    Domain,
    Survival,
    by_aggregate,
    by_hosts,
    by_zone,
    checked,
    document_of,
)
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.snapshot import Snapshot
from scheduler.request.reading import read

#: The kinds of failures.
ONE_HOST, FAILURE_DOMAIN, ZONE = "one host", "failure domain", "zone"


def domains_of_each_kind(snapshot: Snapshot, pattern: str | None = None) -> dict[str, list[Domain]]:
    """Return what fails, by kind.

    Args:
        pattern: Aggregates with such names are the failure domains; None: the aggregates that have
            ``[berth] failure_domain_key`` in their metadata.

    Raises:
        UnknownDomain: No aggregate has such a name.
    """
    named = by_aggregate(snapshot, pattern) if pattern else _by_key(snapshot)
    return {
        ONE_HOST: by_hosts(snapshot),
        FAILURE_DOMAIN: named,
        ZONE: by_zone(snapshot),
    }


def _by_key(snapshot: Snapshot) -> list[Domain]:
    found: dict[str, list[int]] = {}
    for row in range(len(snapshot.table)):
        for name in snapshot.table.coded["aggregates"][row].raw(snapshot.conf.berth.failure_domain_key):
            found.setdefault(name, []).append(row)
    return [Domain(name, tuple(rows)) for name, rows in sorted(found.items())]


def failures(cloud: PlannedCloud, kinds: Mapping[str, Sequence[Domain]]) -> Document:
    """Return what would be lost in the failures of each kind; each failure alone."""
    snapshot, survival = cloud.snapshot, Survival(cloud)
    snapshot.load_requests(range(len(snapshot.instances)))
    answers = {kind: checked(cloud, survival, domains) for kind, domains in kinds.items() if domains}
    return {
        "plan": "failures",
        "kinds": [_kind(cloud, survival, kind, found) for kind, found in answers.items()],
        "flavors": list(_flavors(snapshot, answers)),
    }


def _kind(cloud: PlannedCloud, survival: Survival, kind: str, found: Sequence[Answer]) -> Document:
    return {
        "kind": kind,
        "domains": len(found),
        "survived": sum(not each.stuck and not each.by_hand for each in found),
        "survived_by_hand": sum(not each.stuck and bool(each.by_hand) for each in found),
        "worst": found[0].domain.name if found[0].stuck else None,
        "without_place": len(found[0].stuck),
        "survives": {each.domain.name: not each.stuck for each in found if kind in {FAILURE_DOMAIN, ZONE}},
        "answers": [document_of(cloud, survival, each) for each in found[:MOST_REPORTED] if each.stuck],
    }


def _flavors(snapshot: Snapshot, answers: Mapping[str, Sequence[Answer]]) -> Iterable[Document]:
    """Yield for each flavor the most instances without a place after one failure of each kind."""
    names = [_flavor(snapshot, index) for index in range(len(snapshot.instances))]
    worst: dict[str, dict[str, int]] = {name: {} for name in names}
    for kind, found in answers.items():
        for answer in found:
            for name, count in Counter(names[each.index] for each in answer.stuck).items():
                worst[name][kind] = max(worst[name].get(kind, 0), count)
    total = Counter(names)
    for name in sorted(worst, key=lambda name: (-max(worst[name].values(), default=0), name)):
        lost = {kind: worst[name].get(kind, 0) for kind in answers}
        yield {"flavor": name, "instances": total[name], "without_place": lost}


def _flavor(snapshot: Snapshot, index: int) -> str:
    number = int(snapshot.instances.specs[index])
    flavor = None if number < 0 else snapshot.requests.flavor(number)
    return str(read(flavor, "name", "?"))


def metrics(plan: Document) -> str:
    """Return a plan in the text format of Prometheus."""
    registry = CollectorRegistry()
    gauge: Any = Gauge
    words = "Whether all instances of a failure domain find a place on the other hosts"
    survives = gauge("berth_survives", words, ("kind", "domain"), registry=registry)
    words = "Failures that were checked"
    checks = gauge("berth_failures", words, ("kind",), registry=registry)
    words = "Failures after which all instances find a place"
    survived = gauge("berth_failures_survived", words, ("kind",), registry=registry)
    words = "Instances without a place after the worst failure"
    lost = gauge("berth_failures_without_place", words, ("kind",), registry=registry)
    for one in plan["kinds"]:
        checks.labels(one["kind"]).set(one["domains"])
        survived.labels(one["kind"]).set(one["survived"] + one["survived_by_hand"])
        lost.labels(one["kind"]).set(one["without_place"])
        for name, is_survived in one["survives"].items():
            survives.labels(one["kind"], name).set(is_survived)
    return generate_latest(registry).decode()
