"""berth-plan capacity: how many more instances fit, where, what runs out first, and after a loss."""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
import logging
from typing import Any

import msgspec

from scheduler import objects
from scheduler.errors import BerthError, NoValidHost
from scheduler.logs import count_text
from scheduler.operators.app import AS_METRICS, flag, value, writing
from scheduler.operators.plan.command import Plan, RequestPlan, amounts
from scheduler.operators.plan.fits import FitOnHost, fits
from scheduler.operators.plan.losing import MOST_TRIED, AfterLoss, Headrooms, Losses
from scheduler.operators.plan.moves import summed
from scheduler.operators.shown.files import Measured, write_metrics
from scheduler.operators.shown.shown import BAD, Bar, Columns, Fact, Head, Saying, Table, table
from scheduler.operators.snapshot import requests
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.requests import WrongArgument, of_flavor
from scheduler.request.reading import read

LOG = logging.getLogger("berth-plan")

#: Limits that are shown of one place.
LIMITS = 3

# -- arguments -------------------------------------------------------------------------------------------


class CapacityCommand(RequestPlan):
    """Count how many more instances of a request fit, by cell and zone, and which resource runs out first.

    Exit status: 0 one more fits, 3 none does, 255 it could not be found out.
    """

    needs_request = False

    arguments = (
        flag("--all", "count for all flavors, also after the loss of any one host"),
        value("--textfile", "FILE", f"with --all: write the counts {AS_METRICS}"),
    )

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> Plan:
        described = any((args.flavor, args.like, args.spec))
        if args.all == described:
            raise WrongArgument("Give either --all or one of --flavor, --like and --spec")
        if args.textfile and not args.all:
            raise WrongArgument("--textfile needs --all")
        if args.all:
            return self._all(cloud, args)
        spec: Any = requests.make_request(args, cloud.snapshot.stored, self.conf)
        if read(spec, "instance_group") is not None:
            if any(name == requests.GROUP for name, _ in requests.pairs(args.hint)):
                raise WrongArgument("Capacity is counted without server groups; use dry-run --count")
            spec.instance_group = None
            LOG.warning("The server group of the request is left out: capacity is counted host by host")
        return capacity(cloud, spec)

    def _all(self, cloud: PlannedCloud, args: argparse.Namespace) -> Plan:
        found = capacities(cloud, cloud.snapshot.stored.flavors)
        if args.textfile:
            with writing(f"Cannot write {args.textfile}"):
                write_metrics(args.textfile, metrics(found.flavors))
        return found


# -- of one request --------------------------------------------------------------------------------------


class Room(msgspec.Struct, kw_only=True):
    """What several hosts have room for.

    Attributes:
        hosts: Those that Placement offers; ``not_offered``: the others.
        limits: What runs out first, a resource class or the name of a filter, and on how many hosts.
        stranded: What is left of each resource class when no further instance fits.
    """

    instances: int
    hosts: int
    hosts_with_room: int
    limits: dict[str, int]
    free: dict[str, int]
    stranded: dict[str, int]
    not_offered: int

    @property
    def first_limits(self) -> str:
        first = list(self.limits.items())[:LIMITS]
        return ", ".join(f"{limit} ({hosts})" for limit, hosts in first) or "nothing"


class PlaceRoom(Room, kw_only=True):
    """The hosts of a zone in a cell."""

    cell: str
    zone: str

    @property
    def limits_here(self) -> str:
        return self.first_limits if self.hosts else "not offered by Placement"


class CapacityPlan(Plan, kw_only=True, tag="capacity"):
    """How many more instances of a request fit.

    Attributes:
        reason: Why none fits; "" if one does.
    """

    flavor: str | None
    instances: int
    total: Room
    places: list[PlaceRoom]
    reason: str

    def words(self) -> tuple[Head, list[Table]]:
        total = self.total
        offered = f"{total.hosts_with_room} of {count_text(total.hosts, 'host')} that Placement offers"
        facts = [
            Fact("room:", offered),
            Fact("runs out first:", total.first_limits),
            Fact("stranded then:", amounts(total.stranded)),
        ]
        if self.reason:
            facts.append(Fact("reason:", self.reason))
        columns: Columns = {
            "Cell": "cell", "Zone": "zone", "Instances": "instances",
            "Hosts with room": lambda one: f"{one.hosts_with_room} of {one.hosts + one.not_offered}",
            "Share": lambda one: _share(one.instances, self.instances),
            "Runs out first (hosts)": "limits_here",
            "Stranded then": lambda one: amounts(one.stranded),
        }  # fmt: skip
        subject = f"{self.instances} more of flavor {self.flavor} fit"
        head = Head("What still fits", subject, "" if self.all_placed else BAD, facts=facts)
        return head, [table(self.places, columns, "Places", pictures=("Share",))]


def capacity(cloud: PlannedCloud, spec: objects.RequestSpec) -> CapacityPlan:
    name = read(spec.flavor, "name")
    found: dict[int, FitOnHost] = {}
    reason, again = "", spec.obj_clone()
    try:
        with suppress(NoValidHost):
            found = fits(cloud, spec)
        if not any(fit.count for fit in found.values()):
            reason = cloud.decide(again, [again.instance_uuid], explain=True).why
    except BerthError as error:
        reason = getattr(error, "reason", "") or str(error)
    total = Room(**_room(cloud, found, range(len(cloud.closed))))
    return CapacityPlan(
        flavor=name,
        instances=total.instances,
        total=total,
        places=list(_by_place(cloud, found)),
        reason=reason,
        all_placed=total.instances > 0,
    )


def _by_place(cloud: PlannedCloud, found: Mapping[int, FitOnHost]) -> Iterator[PlaceRoom]:
    snapshot, names = cloud.snapshot, cloud.snapshot.cell_names()
    places = snapshot.rows_by(lambda row: [(names[snapshot.place(row)[0]], snapshot.zone(row))])
    for (cell, zone), rows in places.items():
        room = _room(cloud, found, rows)
        if room["hosts"] or room["not_offered"]:
            yield PlaceRoom(cell=cell, zone=zone, **room)


def _room(cloud: PlannedCloud, found: Mapping[int, FitOnHost], rows: Iterable[int]) -> dict[str, Any]:
    """Return the fields of ``Room`` for several hosts together."""
    fits = [found[row] for row in rows if row in found]
    enabled = cloud.snapshot.table.cell_enabled
    limits: Counter[str] = Counter(fit.limit for fit in fits)
    return {
        "instances": sum(fit.count for fit in fits),
        "hosts": len(fits),
        "hosts_with_room": sum(fit.count > 0 for fit in fits),
        "limits": dict(limits.most_common()),
        "free": summed(fit.free for fit in fits),
        "stranded": summed(fit.stranded for fit in fits),
        "not_offered": sum(bool(enabled[row]) for row in rows if row not in found),
    }


# -- of all flavors --------------------------------------------------------------------------------------


class InZone(msgspec.Struct):
    """What fits of a flavor in a zone, now and after the loss of a host."""

    zone: str
    instances: int
    headroom: int
    stranded: dict[str, int]


class OfFlavor(msgspec.Struct):
    """What fits of a flavor.

    Attributes:
        headroom: What fits after the loss of the host that matters most, which is ``worst_loss``.
        reason: Why this is not known; "" if it is.
    """

    flavor: str
    zones: list[InZone]
    headroom: int
    worst_loss: str
    reason: str

    @property
    def total(self) -> int:
        return sum(zone.instances for zone in self.zones)


class CapacitiesPlan(Plan, kw_only=True, tag="capacities"):
    """What fits of each flavor.

    Attributes:
        losses_not_tried: The number of hosts whose loss was not tried, and may leave less.
    """

    flavors: list[OfFlavor]
    losses_not_tried: int

    def words(self) -> tuple[Head, list[Table]]:
        # What runs out first comes first
        flavors = sorted(self.flavors, key=lambda one: (one.headroom, one.total, one.flavor))
        sayings = [Saying(f"{one.flavor}: {one.reason}") for one in flavors if one.reason]
        if hosts := self.losses_not_tried:
            words = f"the loss of {count_text(hosts, 'host')} was not tried, and may leave less: the"
            sayings.append(Saying(f"{words} {MOST_TRIED} were tried that have most room and instances"))
        nothing = InZone("none", 0, 0, {})
        zones = [(one.flavor, zone) for one in flavors for zone in one.zones or [nothing]]
        of_zones: Columns = {
            "Flavor": 0, "Zone": lambda one: one[1].zone, "Instances": lambda one: one[1].instances,
            "After the loss of a host": lambda one: one[1].headroom,
            "Stranded then": lambda one: amounts(one[1].stranded),
        }  # fmt: skip
        of_flavors: Columns = {
            "Flavor": "flavor", "Instances": "total", "Left": _left, "After the loss of a host": "headroom",
            "Worst host": "worst_loss",
        }  # fmt: skip
        legend = ("pale", "now"), ("strong", "after the loss of any one host")
        return Head("What still fits", sayings=sayings), [
            table(flavors, of_flavors, "Flavors, the scarcest first", pictures=("Left",), legend=legend),
            table(zones, of_zones, "Flavors by zone", searched=True),
        ]


def _share(instances: int, most: int) -> Bar:
    return Bar(0, 100 * instances / max(1, most), str(instances), "" if instances else BAD)


def _left(one: OfFlavor) -> Bar:
    share = 100 * one.headroom / one.total if one.total else 0
    words = f"{one.headroom:,} of {one.total:,} after a loss"
    return Bar(100 if one.total else 0, share, words, "" if one.headroom else BAD)


def capacities(cloud: PlannedCloud, flavors: Iterable[objects.Flavor]) -> CapacitiesPlan:
    """Return for each flavor and zone how many fit, what is stranded, and how many fit after a loss."""
    flavors = list(flavors)
    found: dict[str, dict[int, FitOnHost]] = {}
    reasons: dict[str, str] = {}
    for done, flavor in enumerate(flavors):
        cloud.snapshot.progress("flavors", done, len(flavors))
        try:
            found[flavor.name] = fits(cloud, of_flavor(cloud.snapshot, flavor.name))
        except BerthError as error:
            reasons[flavor.name] = str(error)
    cloud.snapshot.load_requests(range(len(cloud.snapshot.instances)))
    headrooms = Headrooms(Losses(cloud), found)
    after = headrooms.after_any_host()
    of_flavors = []
    for flavor in flavors:
        left = after.get(flavor.name, AfterLoss())
        zones = list(_in_zones(cloud, found.get(flavor.name, {}), left))
        reason = reasons.get(flavor.name, "")
        of_flavors.append(OfFlavor(flavor.name, zones, left.instances, left.host, reason))
    return CapacitiesPlan(flavors=of_flavors, losses_not_tried=headrooms.untried, all_placed=True)


def _in_zones(cloud: PlannedCloud, found: Mapping[int, FitOnHost], left: AfterLoss) -> Iterator[InZone]:
    snapshot = cloud.snapshot
    for zone, rows in snapshot.rows_by(lambda row: [snapshot.zone(row)] if row in found else []).items():
        here = [found[row] for row in rows]
        stranded = summed(fit.stranded for fit in here)
        yield InZone(zone, sum(fit.count for fit in here), left.of_zone[zone], stranded)


def metrics(flavors: Sequence[OfFlavor]) -> list[Measured]:
    zones = {(one.flavor, zone.zone): zone for one in flavors for zone in one.zones}
    by_zone, after = ("flavor", "zone"), "after the loss of any one host"
    left = {(*names, kind): amount for names, zone in zones.items() for kind, amount in zone.stranded.items()}
    stranded = "What is left of a resource class when no further instance fits"
    headroom = {(one.flavor,): one.headroom for one in flavors}

    def of_zones(name: str, words: str, value: str) -> Measured:
        return Measured(name, words, by_zone, {names: getattr(zone, value) for names, zone in zones.items()})

    return [
        of_zones("berth_capacity_instances", "Instances that still fit", "instances"),
        Measured("berth_capacity_stranded", stranded, (*by_zone, "resource_class"), left),
        Measured(
            "berth_capacity_headroom_instances", f"Instances that still fit {after}", by_zone[:1], headroom
        ),
        of_zones(
            "berth_capacity_zone_headroom_instances",
            f"Instances that still fit in a zone {after}",
            "headroom",
        ),
    ]
