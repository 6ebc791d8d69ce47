"""What other options would change: the latest requests are decided again, with each of both.

Their instances are taken off their hosts first. Then each is decided as a new request, in the order of the
requests, and charged to its host. Only the options differ.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from oslo_config import cfg

from scheduler.conf.changed import change
from scheduler.errors import BerthError
from scheduler.operators.plan.balance import spread_of
from scheduler.operators.plan.capacity import fits
from scheduler.operators.plan.moves import Document, Mover
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.requests import of_flavor
from scheduler.operators.snapshot.snapshot import Snapshot
from scheduler.request.reading import read
from scheduler.rules.drivers import Rules, load_rules
from scheduler.weights.added import ANTI_AFFINITY


class Side(NamedTuple):
    """What some options would have decided.

    Attributes:
        hosts: The host of each instance; None for one without a host.
        spread: How the memory of hosts is used then, as ``balance.spread_of``.
        largest: The flavor with most memory that still fits then; None if none does.
        together: The most members of one server group in one failure domain then, of groups that are to be
            spread.
    """

    hosts: Sequence[str | None]
    spread: Document
    largest: str | None
    together: int


def policy(
    snapshot: Snapshot,
    settings: Mapping[str, str],
    uuids: Sequence[str],
    changed: cfg.ConfigOpts,
) -> Document:
    """Return how the hosts of the latest requests differ, and how many requests cannot be decided again.

    Args:
        settings: Texts by the names of options, as ``conf.changed.change`` takes them.
        uuids: The instances of the requests, in the order in which these came.
        changed: The other options, in an object of their own, which ``settings`` change.

    Raises:
        ConfigError: An option does not exist, does not decide, or cannot have the value.
    """
    conf = snapshot.conf
    differing = change(changed, settings)
    rules = {"now": (conf, load_rules(conf)), "changed": (changed, load_rules(changed))}
    known = [snapshot.instances.index_of[uuid] for uuid in uuids if uuid in snapshot.instances.index_of]
    snapshot.load_requests(known)
    indices, left_out = _decidable(snapshot, uuids)
    sides = {name: _decided(snapshot, options, loaded, indices) for name, (options, loaded) in rules.items()}
    now, then = sides["now"].hosts, sides["changed"].hosts
    choices = []
    for number, index in enumerate(indices):
        flavor = snapshot.requests.flavor(int(snapshot.instances.specs[index]))
        choices.append(
            {
                "instance": snapshot.instances.uuids[index],
                "name": snapshot.instances.names[index] or None,
                "project_id": snapshot.instances.projects[index] or None,
                "flavor": read(flavor, "name"),
                "is_on": snapshot.place(int(snapshot.instances.rows[index]))[1],
                "now": now[number],
                "changed": then[number],
            }
        )
    return {
        "plan": "policy",
        "options": _values(conf, changed, differing),
        "instances": len(indices),
        "left_out": dict(left_out),
        "differing": sum(one["now"] != one["changed"] for one in choices),
        "sides": {
            name: {
                "refused": sum(host is None for host in side.hosts),
                "hosts": len({host for host in side.hosts if host}),
                "largest_flavor": side.largest,
                "members_in_one_domain": side.together,
                **side.spread,
            }
            for name, side in sides.items()
        },
        "choices": choices,
    }


def _decidable(snapshot: Snapshot, uuids: Sequence[str]) -> tuple[list[int], Counter[str]]:
    """Return the instances that can be decided again, and the number of others by reason."""
    instances, requests = snapshot.instances, snapshot.requests
    found, left_out = list[int](), Counter[str]()
    for uuid in uuids:
        index = instances.index_of.get(uuid, -1)
        if index < 0:
            left_out["on no host, or deleted since"] += 1
        elif instances.specs[index] < 0:
            left_out["its request cannot be read"] += 1
        elif instances.rows[index] < 0:
            left_out["its host is not among the compute nodes"] += 1
        elif requests.is_forced(int(instances.specs[index])):
            left_out["forced to a host"] += 1
        elif requests.is_pinned(int(instances.specs[index])) or requests.has_devices(
            int(instances.specs[index])
        ):
            left_out["NUMA topology or devices: only its compute knows what it frees"] += 1
        else:
            found.append(index)
    return found, left_out


def _decided(snapshot: Snapshot, conf: cfg.ConfigOpts, rules: Rules, indices: Sequence[int]) -> Side:
    cloud = PlannedCloud(snapshot, conf, rules)
    mover, start = Mover(cloud), cloud.mark
    try:
        for index in indices:
            cloud.remove(index, mover.held(index))
        hosts = []
        for done, index in enumerate(indices):
            snapshot.progress("instances", done, len(indices))
            spec = snapshot.request(index)
            decision = cloud.decide(spec, [snapshot.instances.uuids[index]])
            for chosen in decision.chosen[:1]:
                cloud.put(index, chosen, spec.flavor)
            hosts.append(cloud.host(decision.chosen[0].row) if decision.chosen else None)
        return Side(hosts, spread_of(cloud), _largest(cloud), _together(cloud))
    finally:
        cloud.rewind(start)


def _largest(cloud: PlannedCloud) -> str | None:
    flavors = cloud.snapshot.stored.flavors()
    for flavor in sorted(flavors, key=lambda each: (-each.memory_mb, -each.vcpus)):
        try:
            if any(fit.count for fit in fits(cloud, of_flavor(cloud.snapshot, flavor.name)).values()):
                return str(flavor.name)
        except BerthError:
            continue
    return None


def _together(cloud: PlannedCloud) -> int:
    """Return the most members of one group that is to be spread in one failure domain."""
    snapshot, key = cloud.snapshot, cloud.conf.berth.failure_domain_key
    aggregates, most = snapshot.table.coded["aggregates"], 0
    for group in snapshot.groups.values():
        if group.policy in ANTI_AFFINITY:
            members = [snapshot.instances.index_of.get(uuid, -1) for uuid in group.members]
            rows = [int(cloud.places.rows[at]) for at in members if at >= 0]
            domains = Counter(domain for row in rows if row >= 0 for domain in aggregates[row].raw(key))
            most = max(most, *domains.values(), 0)
    return most


def _values(
    conf: cfg.ConfigOpts, changed: cfg.ConfigOpts, names: Sequence[tuple[str, str]]
) -> list[Document]:
    return [
        {
            "group": group,
            "name": name,
            "now": _plain(_read(conf, group, name)),
            "changed": _plain(_read(changed, group, name)),
        }
        for group, name in names
    ]


def _read(conf: cfg.ConfigOpts, group: str, name: str) -> Any:
    return conf[name] if group == "DEFAULT" else conf[group][name]


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str, list)) else str(value)
