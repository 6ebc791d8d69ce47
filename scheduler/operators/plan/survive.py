"""berth-plan survive: for each failure domain, would all its instances find a place on the rest?

For a change board, ``--all``: how many failures of each kind would be survived, of a host, of a failure
domain and of a zone, and what would be lost of each flavor.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
import fnmatch
from functools import partial, reduce
from operator import or_
from typing import NamedTuple

import msgspec
import numpy as np

from scheduler.logs import count_text
from scheduler.operators.app import AS_METRICS, flag, value, writing
from scheduler.operators.plan.command import Plan, PlanCommand, amounts
from scheduler.operators.plan.fits import fits
from scheduler.operators.plan.losing import EVERYWHERE, Domain, Headrooms, Losses
from scheduler.operators.plan.movable import not_evacuated, to_evacuate
from scheduler.operators.plan.moves import Stuck, Unplaced, causes, summed, unplaced
from scheduler.operators.shown.files import Measured, write_metrics
from scheduler.operators.shown.shown import BAD, Columns, Head, Saying, Table, bars, table
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.requests import WrongArgument, of_flavor
from scheduler.operators.snapshot.snapshot import Snapshot
from scheduler.request.reading import read

#: Failure domains that are reported in full, and those for which instances that may be added are counted.
MOST_REPORTED = 20
MOST_COUNTED = 3

#: Instances without a place that are reported of a domain.
MOST_STUCK = 20

#: The kinds of failures.
ONE_HOST, FAILURE_DOMAIN, ZONE = "one host", "failure domain", "zone"

# -- arguments -------------------------------------------------------------------------------------------


class SurviveCommand(PlanCommand):
    """Check for each failure domain whether the other hosts have room for all its instances.

    Exit status: 0 there is room in all cases, 3 in some there is not, 255 no plan could be made.
    """

    arguments = (
        value(
            "--by",
            "zone|aggregate:PATTERN",
            "fail whole availability zones, or aggregates whose names match a pattern, such as "
            "aggregate:rack*",
        ),
        value(
            "--flavor",
            "NAME|ID",
            "count how many instances of this flavor may be added (default: the most frequent flavor)",
        ),
        flag(
            "--all",
            "check all kinds of failures: of one host, of a failure domain and of a zone, with the flavors "
            "at risk. Failure domains are the aggregates with [berth] failure_domain_key, or those of --by",
        ),
        value("--textfile", "FILE", f"with --all: write the result {AS_METRICS}"),
    )

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> Plan:
        if args.all:
            return self._all(cloud, args)
        if args.textfile:
            raise WrongArgument("--textfile needs --all")
        return survive(cloud, domains_of(cloud.snapshot, args.by), args.flavor)

    def _all(self, cloud: PlannedCloud, args: argparse.Namespace) -> Plan:
        if args.flavor or args.by == "zone":
            raise WrongArgument("--all takes --by aggregate:PATTERN, and no --flavor")
        found = failures(cloud, domains_of_each_kind(cloud.snapshot, args.by))
        if args.textfile:
            with writing(f"Cannot write {args.textfile}"):
                write_metrics(args.textfile, metrics(found))
        return found


# -- failure domains -------------------------------------------------------------------------------------


def by_hosts(snapshot: Snapshot) -> list[Domain]:
    """Return each host with instances as a domain, the fullest first."""
    table = snapshot.table
    counts = np.bincount(snapshot.instances.rows[snapshot.instances.rows >= 0], minlength=len(table))
    memory = table.numbers["total_usable_ram_mb"] - table.numbers["free_ram_mb"]
    hosts = [tuple(rows) for rows in table.rows_of_host.values() if counts[list(rows)].any()]
    hosts.sort(key=lambda rows: (-int(memory[list(rows)].sum()), rows))
    return [Domain(table.rows[rows[0]].host, tuple(map(int, rows))) for rows in hosts]


def domains_of(snapshot: Snapshot, by: str | None) -> list[Domain]:
    """Return the failure domains that a command names.

    Args:
        by: ``zone``, ``aggregate:PATTERN``, or None for hosts.
    """
    if by is None:
        return by_hosts(snapshot)
    kind, _, pattern = by.partition(":")
    if by == "zone":
        return _domains(snapshot, lambda row: [snapshot.zone(row)])
    if kind != "aggregate" or not pattern:
        raise WrongArgument(f"--by takes zone or aggregate:PATTERN, not {by}")
    found = _domains(
        snapshot, lambda row: fnmatch.filter((one.name for one in snapshot.aggregates(row)), pattern)
    )
    if not found:
        raise WrongArgument(f"No aggregate with a host has a name that matches {pattern}")
    return found


def _domains(snapshot: Snapshot, names_of: Callable[[int], Iterable[str]]) -> list[Domain]:
    return [Domain(name, tuple(rows)) for name, rows in snapshot.rows_by(names_of).items()]


def domains_of_each_kind(snapshot: Snapshot, by: str | None = None) -> dict[str, list[Domain]]:
    """Return what fails, by kind.

    Args:
        by: Names the failure domains; None: they are the aggregates with ``[berth] failure_domain_key``.
    """
    key = snapshot.conf.berth.failure_domain_key
    return {
        ONE_HOST: by_hosts(snapshot),
        FAILURE_DOMAIN: domains_of(snapshot, by)
        if by
        else _domains(snapshot, lambda row: snapshot.aggregates(row).raw(key)),
        ZONE: domains_of(snapshot, "zone"),
    }


# -- documents -------------------------------------------------------------------------------------------


class DomainLoss(NamedTuple):
    """The instances without a place on the rest, and those to be reset by hand, as in ``Failed``."""

    domain: Domain
    instances: int
    stuck: Sequence[Stuck]
    by_hand: Mapping[str, int]


class Failed(msgspec.Struct, kw_only=True):
    """The failure of a domain.

    Attributes:
        by_hand: How many of those placed nova does not evacuate before their state is reset, by state.
        missing: What the instances without a place request together, by resource class.
        without_place: The first of them, with the reasons.
    """

    domain: str
    hosts: int
    instances: int
    placed: int
    by_hand: dict[str, int]
    missing: dict[str, int]
    without_place: list[Unplaced]


class SurvivePlan(Plan, kw_only=True, tag="survive"):
    """Which failures the cloud would survive.

    Attributes:
        domains: The number of failures.
        survived: How many of them leave no instance without a place.
        survived_by_hand: How many more do not if an operator resets states first.
        answers: The worst failures.
        missing: The most that is missing of each resource class in one failure.
        may_be_added: How many instances of the flavor may be added until a failure is not survived.
    """

    domains: int
    survived: int
    survived_by_hand: int
    flavor: str | None
    answers: list[Failed]
    missing: dict[str, int]
    may_be_added: int

    def words(self) -> tuple[Head, list[Table]]:
        columns: Columns = {
            "Failure": "domain", "Hosts": "hosts", "Instances": "instances", "Placed": "placed",
            "Of these by hand": lambda one: ", ".join(f"{count} {why}" for why, count in one.by_hand.items()),
            "Missing": lambda one: amounts(one.missing),
        }  # fmt: skip
        subject = f"{self.survived} of {count_text(self.domains, 'failure')} would be survived"
        drawn = (_bar(one.domain, one.instances, one.placed, " placed") for one in self.answers)
        legend = (("pale", "on the failed hosts"), ("strong", "placed on the rest"))
        return Head("Losing hosts", subject, self.look, sayings=self._sayings()), [
            bars("Instances of each failure", drawn, legend),
            table(self.answers, columns, "Failures", left_out=self.domains - len(self.answers)),
        ]

    def _sayings(self) -> list[Saying]:
        sayings = []
        if by_hand := self.survived_by_hand:
            sayings.append(Saying(BY_HAND.format(count_text(by_hand, "more failure"))))
        stays = [one for answer in self.answers for one in answer.without_place]
        if self.missing:
            words = f"missing in the worst case: {amounts(self.missing)}"
            sayings.append(Saying(words, details=causes(stays)))
        elif stays:
            sayings.append(Saying("instances without a place:", details=causes(stays)))
        elif self.flavor and self.domains:
            failure = (
                "a failure" if self.domains <= MOST_COUNTED else f"one of the {MOST_COUNTED} largest failures"
            )
            added = f"{self.may_be_added} more of flavor {self.flavor} can be added"
            sayings.append(Saying(f"{added} until {failure} is not survived"))
        return sayings


BY_HAND = (
    "{} if an operator first resets instances that nova does not evacuate: it evacuates active and stopped "
    "ones, and those in error"
)


def survive(cloud: PlannedCloud, domains: Sequence[Domain], flavor: str | None = None) -> SurvivePlan:
    """Return which failure domains, each alone, the cloud would survive, the worst first.

    Instances that may be added are of a flavor, or of the most frequent one.
    """
    snapshot, losses = cloud.snapshot, Losses(cloud)
    rows = sorted({row for domain in domains for row in domain.rows})
    snapshot.load_requests(snapshot.instances.on(rows).tolist())
    answers = _checked(losses, domains)
    flavor = flavor or _most_common_flavor(snapshot)
    lost = [each for each in answers if each.stuck]
    largest = sorted(answers, key=lambda each: -each.instances)[:MOST_COUNTED]
    return SurvivePlan(
        domains=len(answers),
        **_survived(answers),
        flavor=flavor,
        answers=[_failed(losses, each) for each in answers[:MOST_REPORTED]],
        missing=dict(sorted(_most(summed(one.amounts for one in each.stuck) for each in lost).items())),
        may_be_added=0 if lost or not flavor else _addable(losses, largest, flavor),
        all_placed=not lost,
    )


def _survived(answers: Sequence[DomainLoss]) -> dict[str, int]:
    return {
        "survived": sum(not each.stuck and not each.by_hand for each in answers),
        "survived_by_hand": sum(not each.stuck and bool(each.by_hand) for each in answers),
    }


def _checked(losses: Losses, domains: Sequence[Domain]) -> list[DomainLoss]:
    """Return what the loss of each of some domains means, the worst first. Their requests were read."""
    snapshot, answers = losses.cloud.snapshot, list[DomainLoss]()
    for done, domain in enumerate(domains):
        snapshot.progress("failure domains", done, len(domains))
        indices = to_evacuate(snapshot, domain.rows)
        stuck = losses.stuck(domain, MOST_STUCK if len(domains) <= MOST_REPORTED else 0)
        placed = set(indices) - {each.index for each in stuck}
        by_hand = Counter(snapshot.instances.states[index] for index in not_evacuated(snapshot, placed))
        answers.append(DomainLoss(domain, len(indices), stuck, dict(sorted(by_hand.items()))))
    return sorted(answers, key=lambda each: (-len(each.stuck), -sum(each.by_hand.values()), -each.instances))


def _failed(losses: Losses, answer: DomainLoss) -> Failed:
    """Return an answer with the reasons for the first instances without a place."""
    stuck, rows = answer.stuck, losses.cloud.snapshot.instances.rows
    if not all(each.why for each in stuck[:MOST_STUCK]):
        stuck = losses.stuck(answer.domain, MOST_STUCK)
    return Failed(
        domain=answer.domain.name,
        hosts=len(answer.domain.rows),
        instances=answer.instances,
        placed=answer.instances - len(stuck),
        by_hand=dict(answer.by_hand),
        missing=summed(each.amounts for each in stuck),
        without_place=[unplaced(losses.cloud, each, int(rows[each.index])) for each in stuck[:MOST_STUCK]],
    )


def _most(found: Iterable[Mapping[str, int]]) -> Counter[str]:
    return reduce(or_, map(Counter, found), Counter())


def _most_common_flavor(snapshot: Snapshot) -> str | None:
    names: Counter[str] = Counter()
    for number, count in Counter(snapshot.instances.specs.tolist()).items():
        if number >= 0 and (name := read(snapshot.requests[number].flavor, "name")):
            names[name] += count
    return names.most_common(1)[0][0] if names else None


def _addable(losses: Losses, answers: Sequence[DomainLoss], flavor: str) -> int:
    """Return how many instances of a flavor fit on the other hosts after the worst of some failures."""
    found = fits(losses.cloud, of_flavor(losses.cloud.snapshot, flavor))
    headrooms = Headrooms(losses, {flavor: found})
    return min((int(headrooms.left(each.domain)[0][EVERYWHERE]) for each in answers), default=0)


# -- all kinds of failures -------------------------------------------------------------------------------


class FailureKind(msgspec.Struct, kw_only=True):
    """The failures of a kind.

    Attributes:
        worst: The failure that leaves most instances without a place; None if none does.
        without_place: How many that leaves.
        survives: Whether each failure domain or zone would be survived, by name.
        answers: The worst failures that would not be.
    """

    kind: str
    domains: int
    survived: int
    survived_by_hand: int
    worst: str | None
    without_place: int
    survives: dict[str, bool]
    answers: list[Failed]

    @property
    def all_survived(self) -> int:
        return self.survived + self.survived_by_hand

    def line(self) -> str:
        failures = count_text(self.domains, "failure")
        line = f"loss of {self.kind}: {self.all_survived} of {failures} would be survived"
        if self.survived_by_hand:
            line += f", {self.survived_by_hand} of them with instances that an operator resets first"
        if self.worst:
            line += f"; worst: {self.worst}, {count_text(self.without_place, 'instance')} without a place"
        return line


class AtRisk(msgspec.Struct):
    """A flavor with the most instances without a place after one failure of each kind."""

    flavor: str
    instances: int
    without_place: dict[str, int]


class FailuresPlan(Plan, kw_only=True, tag="failures"):
    """What would be lost in the failures of each kind."""

    kinds: list[FailureKind]
    flavors: list[AtRisk]

    def words(self) -> tuple[Head, list[Table]]:
        worst: Columns = {f"Loss of {one.kind}": partial(_lost, kind=one.kind) for one in self.kinds}
        columns = {"Flavor at risk": "flavor", "Instances": "instances", **worst}
        drawn = (_bar(one.kind, one.domains, one.all_survived) for one in self.kinds)
        legend = (("pale", "checked"), ("strong", "survived"))
        sayings = [Saying(one.line()) for one in self.kinds]
        return Head("What the cloud survives", look=self.look, sayings=sayings), [
            bars("Failures that would be survived", drawn, legend),
            table(self.flavors, columns, "Flavors at risk"),
        ]


def _lost(flavor: AtRisk, kind: str) -> str:
    lost = flavor.without_place[kind]
    return f"{lost} without a place" if lost else "survived"


def failures(cloud: PlannedCloud, kinds: Mapping[str, Sequence[Domain]]) -> FailuresPlan:
    """Return what would be lost in the failures of each kind; each failure alone."""
    snapshot, losses = cloud.snapshot, Losses(cloud)
    snapshot.load_requests(range(len(snapshot.instances)))
    answers = {kind: _checked(losses, domains) for kind, domains in kinds.items() if domains}
    return FailuresPlan(
        kinds=[_kind(losses, kind, found) for kind, found in answers.items()],
        flavors=_flavors(snapshot, answers),
        all_placed=not any(found[0].stuck for found in answers.values()),
    )


def _kind(losses: Losses, kind: str, found: Sequence[DomainLoss]) -> FailureKind:
    return FailureKind(
        kind=kind,
        domains=len(found),
        **_survived(found),
        worst=found[0].domain.name if found[0].stuck else None,
        without_place=len(found[0].stuck),
        survives={each.domain.name: not each.stuck for each in found if kind in {FAILURE_DOMAIN, ZONE}},
        answers=[_failed(losses, each) for each in found[:MOST_REPORTED] if each.stuck],
    )


def _flavors(snapshot: Snapshot, answers: Mapping[str, Sequence[DomainLoss]]) -> list[AtRisk]:
    names = [str(read(snapshot.flavor(index), "name", "?")) for index in range(len(snapshot.instances))]
    worst = {
        kind: _most(Counter(names[one.index] for one in each.stuck) for each in found)
        for kind, found in answers.items()
    }
    flavors = [
        AtRisk(name, total, {kind: lost[name] for kind, lost in worst.items()})
        for name, total in Counter(names).items()
    ]
    return sorted(flavors, key=lambda one: (-max(one.without_place.values(), default=0), one.flavor))


def metrics(plan: FailuresPlan) -> list[Measured]:
    def of_kinds(name: str, words: str, value: Callable[[FailureKind], float]) -> Measured:
        return Measured(name, words, ("kind",), {(one.kind,): value(one) for one in plan.kinds})

    survives = {(one.kind, name): survived for one in plan.kinds for name, survived in one.survives.items()}
    words = "Whether all instances of a failure domain find a place on the other hosts"
    placed = "Failures after which all instances find a place"
    lost = "Instances without a place after the worst failure"
    return [
        Measured("berth_survives", words, ("kind", "domain"), survives),
        of_kinds("berth_failures", "Failures that were checked", lambda one: one.domains),
        of_kinds("berth_failures_survived", placed, lambda one: one.all_survived),
        of_kinds("berth_failures_without_place", lost, lambda one: one.without_place),
    ]


def _bar(name: str, whole: int, part: int, done: str = "") -> tuple[str, int, int, str, str]:
    """Return a row of ``bars``, which is bad unless the part is the whole."""
    return name, whole, part, f"{part} of {whole}{done}", "" if part == whole else BAD
