"""All failures of one kind after the other: of a host, of two hosts, of a failure domain, of a zone.

For a change board: how many of each kind would be survived, what would be lost of each flavor and server
group, and how that has changed from night to night.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
import json
import logging
from pathlib import Path
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
from scheduler.operators.shown import files
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.snapshot import Snapshot
from scheduler.request.reading import read

LOG = logging.getLogger("berth-plan")

#: Nights that the trend shows.
NIGHTS = 90

#: The kinds of failures; N+1 and N+2 are the first two.
ONE_HOST, TWO_HOSTS, FAILURE_DOMAIN, ZONE = "one host", "two hosts", "failure domain", "zone"


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
        ONE_HOST: by_hosts(snapshot, 1),
        TWO_HOSTS: by_hosts(snapshot, 2),
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
        "groups": list(_groups(snapshot, answers)),
        "history": [],
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


def _groups(snapshot: Snapshot, answers: Mapping[str, Sequence[Answer]]) -> Iterable[Document]:
    """Yield the server groups with a member without a place, with the most such members of one failure."""
    worst: dict[str, dict[str, int]] = {}
    group_of, uuids = snapshot.instances.group_of, snapshot.instances.uuids
    for kind, found in answers.items():
        for answer in found:
            members = Counter(group_of.get(uuids[each.index], "") for each in answer.stuck)
            for uuid, count in members.items():
                of_group = worst.setdefault(uuid, {})
                of_group[kind] = max(of_group.get(kind, 0), count)
    worst.pop("", None)
    for uuid in sorted(worst, key=lambda uuid: (-max(worst[uuid].values()), uuid)):
        group: Any = snapshot.groups.get(uuid)
        yield {
            "group": uuid,
            "name": None if group is None else group.name,
            "project": None if group is None else group.project_id,
            "policy": None if group is None else group.policy,
            "members": 0 if group is None else len(group.members),
            "without_place": {kind: worst[uuid].get(kind, 0) for kind in answers},
        }


# -- from night to night -------------------------------------------------------------------------------------


def keep(directory: Path, plan: Document, now: datetime) -> None:
    """Write what the trend needs of a plan into the file of today.

    Raises:
        OSError: It cannot be written.
    """
    directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    names = ("domains", "survived", "survived_by_hand", "without_place")
    kinds = {one["kind"]: {name: one[name] for name in names} for one in plan["kinds"]}
    files.write(directory / f"survive-{now.date().isoformat()}.json", json.dumps({"kinds": kinds}) + "\n")


def history(directory: Path) -> list[Document]:
    """Return what was kept of the last nights, the latest one last. Unreadable files are left out."""
    found = []
    for file in sorted(directory.glob("survive-*.json"))[-NIGHTS:]:
        try:
            kinds = json.loads(file.read_text())["kinds"]
            counts = {kind: {name: int(value) for name, value in one.items()} for kind, one in kinds.items()}
            found.append({"night": file.stem.removeprefix("survive-"), "kinds": counts})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            LOG.warning("Cannot read %s; leaving it out of the trend: %s", file, error)
    return found


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
