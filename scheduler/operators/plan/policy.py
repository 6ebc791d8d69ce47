"""berth-plan policy: what other options would change.

The instances of the latest requests are taken off their hosts first. Then each is decided as a new request,
in the order of the requests, and charged to its host; with the options in use, and with the others.
"""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
from oslo_config import cfg

from scheduler import conf as options
from scheduler.conf import rules as rule_options
from scheduler.conf.registry import list_opts
from scheduler.errors import BerthError, ConfigError
from scheduler.logs import count_text
from scheduler.operators.app import count, flag, latest, value, values
from scheduler.operators.plan.balance import Spread, histogram, spread_of
from scheduler.operators.plan.command import Plan, PlanCommand
from scheduler.operators.plan.fits import fits
from scheduler.operators.plan.moves import Mover
from scheduler.operators.shown.shown import BAD, Columns, Fact, Head, Table, table
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.requests import WrongArgument, of_flavor, pairs
from scheduler.operators.snapshot.snapshot import Snapshot
from scheduler.request.reading import read
from scheduler.rules.drivers import Rules, load_rules
from scheduler.weights.added import ANTI_AFFINITY

#: The group of an option that is named without one.
DEFAULT_GROUP = "filter_scheduler"

#: Groups and options that decide between hosts. Only these can be compared: others, such as the names of
#: servers, change no decision.
DECIDING_GROUPS = {"filter_scheduler", "scheduler", "metrics"}
DECIDING_OPTIONS = {
    ("compute", "packing_host_numa_cells_allocation_strategy"),
    ("DEFAULT", "default_availability_zone"),
    *((rule_options.GROUP, option.dest) for option in rule_options.OPTS),
}

#: Requests that are decided again at most.
MOST_REQUESTS = 10_000


class PolicyCommand(PlanCommand):
    """Compare the hosts that the latest requests get with the options in use and with other options.

    Exit status: 0 all find a host with the other options, 3 some do not, 255 no plan could be made.
    """

    arguments = (
        values(
            "--set",
            "[GROUP.]OPTION=VALUE",
            "change an option, of [filter_scheduler] if no group is named; the value is written as in "
            "nova.conf",
            dest="settings",
        ),
        value("--other-config", "FILE", "use this configuration file as the other options"),
        flag("--rows", "also list each instance that would go elsewhere"),
        count("--last", 100, "maximum number of requests"),
        latest(None),
    )

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> "PolicyPlan":
        if not args.settings and not args.other_config:
            raise WrongArgument("Nothing differs: give --set or --other-config")
        conf = cloud.snapshot.conf
        given = (
            {"file": [args.other_config]}
            if args.other_config
            else {"file": conf.config_file, "dir": conf.config_dir}
        )
        other = options.load([f"--config-{kind}={name}" for kind, names in given.items() for name in names])
        begin = None if args.since is None else datetime.fromtimestamp(args.since, UTC).replace(tzinfo=None)
        at_most = MOST_REQUESTS if begin is not None else min(args.last, MOST_REQUESTS)
        uuids = cloud.snapshot.stored.latest(at_most, begin)
        found = policy(cloud.snapshot, dict(pairs(args.settings)), uuids, other)
        found.with_rows = args.rows
        return found


class Changed(msgspec.Struct):
    """An option that differs."""

    group: str
    name: str
    now: Any
    changed: Any


class Side(Spread, kw_only=True):
    """What some options would decide, with the memory of hosts in use then.

    Attributes:
        refused: Instances without a host.
        hosts: How many hosts get instances.
        largest_flavor: The flavor with most memory that still fits then; None if none does.
        members_in_one_domain: The most members of one server group in one failure domain then, of groups that
            are to be spread.
    """

    refused: int
    hosts: int
    largest_flavor: str | None
    members_in_one_domain: int


class Redecided(msgspec.Struct):
    """An instance, and the host that it gets with both options; None: it gets none."""

    instance: str
    name: str | None
    project_id: str | None
    flavor: str | None
    is_on: str
    now: str | None
    changed: str | None


SIDES = {
    "refused": "Instances without a host",
    "hosts": "Hosts that get instances",
    "memory_used_mean_percent": "Memory in use, mean of all hosts, %",
    "memory_used_deviation_percent": "Memory in use, standard deviation, %",
    "empty_hosts": "Hosts without instances",
    "largest_flavor": "Largest flavor that still fits",
    "members_in_one_domain": "Most members of a group in one failure domain",
}


class PolicyPlan(Plan, kw_only=True, tag="policy"):
    """How the hosts of the latest requests differ.

    Attributes:
        left_out: How many requests cannot be decided again, by reason.
        differing: How many instances would go elsewhere.
        with_rows: Whether these are listed.
    """

    options: list[Changed]
    instances: int
    left_out: dict[str, int]
    differing: int
    now: Side
    changed: Side
    choices: list[Redecided]
    with_rows: bool = False

    def words(self) -> tuple[Head, list[Table]]:
        facts = [Fact(f"[{one.group}] {one.name}:", f"{one.now} -> {one.changed}") for one in self.options]
        if self.left_out:
            reasons = (
                f"{count_text(number, 'instance')} ({reason})" for reason, number in self.left_out.items()
            )
            facts.append(Fact("not decided again:", ", ".join(reasons)))
        columns: Columns = {"Measure": 0, "Now": 1, "Changed": 2}
        measures = [
            (words, getattr(self.now, name), getattr(self.changed, name)) for name, words in SIDES.items()
        ]
        subject = f"{self.differing} of {count_text(self.instances, 'instance')} would go elsewhere"
        if self.differing and not self.with_rows:
            subject += "; --rows lists them"
        parts: list[Table] = [
            histogram(self.now, self.changed, "options in use", "changed options"),
            table(measures, columns, "Before and after"),
        ]
        if self.with_rows:
            choices = [one for one in self.choices if one.now != one.changed]
            columns = {
                "Instance": "instance", "Server": "name", "Flavor": "flavor", "Is on": "is_on",
                "Now": lambda one: one.now or "none", "Changed": lambda one: one.changed or "none",
            }  # fmt: skip
            title = "Instances that would go elsewhere"
            parts.append(table(choices, columns, title, searched=bool(choices)))
        return Head("Other options", subject, "" if self.all_placed else BAD, facts=facts), parts


def policy(
    snapshot: Snapshot,
    settings: Mapping[str, str],
    uuids: Sequence[str],
    changed: cfg.ConfigOpts,
) -> PolicyPlan:
    """Return how the hosts of the latest requests differ, and how many requests cannot be decided again.

    Args:
        settings: Texts by the names of options, as ``change`` takes them.
        uuids: The instances of the requests, in the order in which these came.
        changed: The other options, in an object of their own, which ``settings`` change.
    """
    conf = snapshot.conf
    differing = change(changed, settings)
    rules = load_rules(conf), load_rules(changed)
    known = [snapshot.instances.index_of[uuid] for uuid in uuids if uuid in snapshot.instances.index_of]
    snapshot.load_requests(known)
    indices, left_out = _decidable(snapshot, uuids)
    now, hosts_now = _decided(snapshot, conf, rules[0], indices)
    then, hosts_then = _decided(snapshot, changed, rules[1], indices)
    choices = [
        Redecided(
            snapshot.instances.uuids[index],
            snapshot.instances.names[index] or None,
            snapshot.instances.projects[index] or None,
            read(snapshot.flavor(index), "name"),
            snapshot.place(int(snapshot.instances.rows[index]))[1],
            hosts_now[number],
            hosts_then[number],
        )
        for number, index in enumerate(indices)
    ]
    return PolicyPlan(
        options=[
            Changed(group, name, _read(conf, group, name), _read(changed, group, name))
            for group, name in differing
        ],
        instances=len(indices),
        left_out=dict(left_out),
        differing=sum(one.now != one.changed for one in choices),
        now=now,
        changed=then,
        choices=choices,
        all_placed=not then.refused,
    )


def _decidable(snapshot: Snapshot, uuids: Sequence[str]) -> tuple[list[int], Counter[str]]:
    """Return the instances that can be decided again, and the number of others by reason."""
    found, left_out = list[int](), Counter[str]()
    for uuid in uuids:
        index = snapshot.instances.index_of.get(uuid)
        stored = None if index is None else snapshot.stored_request(index)
        if index is None:
            left_out["on no host, or deleted since"] += 1
        elif stored is None:
            left_out["its request cannot be read"] += 1
        elif snapshot.instances.rows[index] < 0:
            left_out["its host is not among the compute nodes"] += 1
        elif stored.is_forced:
            left_out["forced to a host"] += 1
        elif stored.is_pinned or stored.has_devices:
            left_out["NUMA topology or devices: only its compute knows what it frees"] += 1
        else:
            found.append(index)
    return found, left_out


def _decided(
    snapshot: Snapshot, conf: cfg.ConfigOpts, rules: Rules, indices: Sequence[int]
) -> tuple[Side, list[str | None]]:
    """Return what some options decide, and the host of each instance; None for one without a host."""
    cloud = PlannedCloud(snapshot, conf, rules)
    mover = Mover(cloud)
    with cloud.restoring():
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
        side = Side(
            refused=sum(host is None for host in hosts),
            hosts=len({host for host in hosts if host}),
            largest_flavor=_largest(cloud),
            members_in_one_domain=_together(cloud),
            **msgspec.structs.asdict(spread_of(cloud)),
        )
        return side, hosts


def _largest(cloud: PlannedCloud) -> str | None:
    flavors = cloud.snapshot.stored.flavors
    for flavor in sorted(flavors, key=lambda each: (-each.memory_mb, -each.vcpus)):
        with suppress(BerthError):
            if any(fit.count for fit in fits(cloud, of_flavor(cloud.snapshot, flavor.name)).values()):
                return str(flavor.name)
    return None


def _together(cloud: PlannedCloud) -> int:
    """Return the most members of one group that is to be spread in one failure domain."""
    snapshot, key = cloud.snapshot, cloud.conf.berth.failure_domain_key
    most = 0
    for group in snapshot.groups.values():
        if group.policy in ANTI_AFFINITY:
            members = [snapshot.instances.index_of.get(uuid, -1) for uuid in group.members]
            rows = [int(cloud.places.rows[at]) for at in members if at >= 0]
            domains = Counter(name for row in rows if row >= 0 for name in snapshot.aggregates(row).raw(key))
            most = max(most, *domains.values(), 0)
    return most


def _read(conf: cfg.ConfigOpts, group: str, name: str) -> Any:
    value = conf[name] if group == "DEFAULT" else conf[group][name]
    return value if value is None or isinstance(value, (bool, int, float, str, list)) else str(value)


# -- other values of options ------------------------------------------------------------------------------


def change(conf: cfg.ConfigOpts, settings: Mapping[str, str]) -> list[tuple[str, str]]:
    """Give options other values, and return their groups and names.

    Args:
        settings: Texts as in a configuration file by ``GROUP.NAME``, or ``NAME`` for one of
            ``[filter_scheduler]``.
    """
    known = {
        (group or "DEFAULT", option.dest): option for group, options in list_opts() for option in options
    }
    changed = []
    for setting, text in settings.items():
        group, _, name = setting.rpartition(".")
        key = group or DEFAULT_GROUP, name
        if key not in known:
            raise ConfigError(f"There is no option [{key[0]}]/{name}")
        if key[0] not in DECIDING_GROUPS and key not in DECIDING_OPTIONS:
            raise ConfigError(f"[{key[0]}]/{name} does not decide between hosts, so it cannot be compared")
        try:
            value = [text] if known[key].multi else text
            conf.set_override(name, value, None if key[0] == "DEFAULT" else key[0])
        except ValueError as error:
            raise ConfigError(f"[{key[0]}]/{name}: {error}") from error
        changed.append(key)
    return changed
