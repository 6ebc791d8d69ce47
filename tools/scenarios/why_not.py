"""Are the explanations of requests that find no valid host true?

Random clouds, and each request without one constraint. For each constraint that an explanation names as the
only one that hosts fail, the request without exactly this constraint must find as many hosts as it says; for
each other constraint, the request without it must find none. A dry run of each request, on a snapshot of the
same cloud, must find hosts if the request does, and name the same constraints if not.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
import contextlib
from dataclasses import dataclass, field, replace
from functools import partial
import math
from pathlib import Path
import random
import time

from scheduler.decisions.document import Why
from scheduler.decisions.words import failing_text
from tools.rig import command
from tools.rig.draw import SMALL, Kinds, draw, draw_request, read, saved
from tools.rig.load import random_uuid
from tools.rig.placement import placement_of
from tools.rig.refusing_cloud import FILTERS, RefusingCloud
from tools.rig.wanted import TENANT, Wanted

#: Requests for each cloud.
REQUESTS = 6

Context = Callable[[], contextlib.AbstractContextManager[None]]


@dataclass(frozen=True)
class Removal:
    """One constraint that is taken away.

    Attributes:
        name: The begin of its name in the explanation.
        wanted: The request without it.
        context: In which the request is decided.
    """

    name: str
    wanted: Wanted
    context: Context = contextlib.nullcontext


@dataclass
class Report:
    """What a run found: ``counts`` of what was compared, ``problems`` of what is false, in which clouds."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    saved: list[str] = field(default_factory=list)

    def add(self, other: "Report") -> None:
        self.counts += other.counts
        self.problems += other.problems
        self.saved += other.saved


def run(
    directory: Path, seeds: Iterable[int], requests: int = REQUESTS, kinds: Kinds = SMALL
) -> Iterator[tuple[int, Report]]:
    """Compare explanations of random clouds, and yield for each seed what was found."""
    with placement_of(directory) as place:
        for seed in seeds:
            report = Report(Counter(clouds=1))
            make = partial(draw, kinds=kinds)
            with RefusingCloud(directory / f"cloud{seed}", place, random.Random(seed), make) as cloud:
                for _ in range(requests):
                    _compare(cloud, draw_request(cloud.rng, cloud.fleet), report, f"seed {seed}")
            yield seed, report


def run_saved(directory: Path, text: str) -> Report:
    """Compare the explanation of a request that was ``saved``."""
    report = Report(Counter(clouds=1))
    with (
        placement_of(directory) as place,
        RefusingCloud(
            directory / "cloud", place, random.Random(0), lambda _, cells: read(text, cells)[0]
        ) as cloud,
    ):
        _compare(cloud, read(text, cloud.fleet.cells)[1], report, "saved")
    return report


def _compare(cloud: RefusingCloud, wanted: Wanted, report: Report, where: str) -> None:
    uuids = [random_uuid(cloud.rng) for _ in range(wanted.count)]
    before = len(cloud.decisions)
    planned = cloud.dry_run(wanted.spec(uuids))
    decision = cloud.decide(wanted.spec(uuids), uuids, explain=True)
    report.counts["requests"] += 1
    if len(cloud.decisions) == before or decision.error is None:
        if len(cloud.decisions) > before and planned.error is not None:
            report.problems.append(
                f"{where}: {wanted} finds hosts, but not by its dry run: {planned.summary}"
            )
        cloud.release(uuids)
        return
    report.counts["refused"] += 1
    why = decision.why
    if why is None:
        report.counts[f"not explained: {decision.error.text[:60]}"] += 1
        return
    cause = decision.cause
    report.counts[f"cause {cause.code if cause else None}"] += 1

    def found(text: str) -> None:
        report.saved.append(saved(cloud.fleet, wanted))
        report.problems.append(
            f"{where}: {text}\n  {wanted}\n  {decision.queries}\n  "
            + "\n  ".join(failing_text(why, one) for one in why.failing)
        )

    # which hosts lack several constraints is known better by the dry run: it has read all unit limits
    by_plan = _said(planned.why) if planned.why else {}
    if by_plan != _said(why):
        found(f"by its dry run {by_plan}, by the request {_said(why)}")
    if why.suitable:
        found(f"{why.suitable} hosts are said to suit")
    for removal in removals(cloud, wanted):
        _compare_without(cloud, removal, (wanted, why, uuids), report, found)


def _compare_without(
    cloud: RefusingCloud,
    removal: Removal,
    refused: tuple[Wanted, Why, list[str]],
    report: Report,
    found: Callable[[str], None],
) -> None:
    wanted, why, uuids = refused
    names = removal.name, f"{removal.name} ("
    told = sum(n for name, n in _said(why).items() if name == names[0] or name.startswith(names[1]))
    if not told and removal.name in " ".join(why.notes):
        report.counts["not asked in time"] += 1
        return
    if wanted.policy and why.number > 1:
        # without it the instances before would have other hosts
        report.counts["not comparable"] += 1
        return
    actual = _actual(cloud, removal, why, uuids)
    report.counts["statements"] += 1
    report.counts["named as sufficient"] += bool(told)
    if why.number > 1:
        if bool(told) != bool(actual):
            found(f"without {removal.name} {actual} more instances, told {told}")
    elif told != actual:
        found(f"without {removal.name} {actual} hosts, told {told}")


def _said(why: Why) -> dict[str, int]:
    """Return how many hosts fail each constraint alone."""
    return {constraint.text: failing.hosts for constraint, failing in why.alone()}


def _actual(cloud: RefusingCloud, removal: Removal, why: Why, uuids: list[str]) -> int:
    """Return how many hosts there are without a constraint; of a later instance whether it finds one."""
    with removal.context():
        if why.number == 1:
            return cloud.passing(lambda: removal.wanted.spec(uuids))
        some = uuids[: why.number]
        spec = replace(removal.wanted, count=len(some)).spec(some)
        if removal.context == cloud.enabled:
            cloud.read_again()
        decision = cloud.decide(spec, some)
        if decision.error is not None:
            return 0
        cloud.release(some)
        return 1


def removals(cloud: RefusingCloud, wanted: Wanted) -> Iterator[Removal]:
    """Yield the constraints of a request, one by one."""
    plain = {
        "vcpus": (f"{wanted.vcpus} VCPU", 0, not wanted.numa),
        "memory_mb": (f"{wanted.memory_mb} MEMORY_MB", 0, not wanted.numa),
        "root_gb": (f"{wanted.root_gb} DISK_GB", 0, wanted.root_gb),
        "vgpus": ("group 1", 0, wanted.vgpus),
        "tree_vgpus": (f"{wanted.tree_vgpus} VGPU", 0, wanted.tree_vgpus),
        "zone": (f"availability zone {wanted.zone}", None, wanted.zone),
        "tenant": (f"required aggregate tenant of project {TENANT}", False, wanted.tenant),
        "ignored": ("ignored by the request", (), wanted.ignored),
        "destination": (
            f"the requested destination {(wanted.destination or '?')[0]}",
            None,
            wanted.destination,
        ),
    }
    for attribute, (name, nothing, applies) in plain.items():
        if applies:
            yield Removal(name, replace(wanted, **{attribute: nothing}))
    for name in wanted.traits:
        left = tuple(one for one in wanted.traits if one != name)
        yield Removal(f"required trait {name}", replace(wanted, traits=left))
    for name in wanted.forbidden:
        yield Removal(f"forbidden trait {name}", replace(wanted, forbidden=()))
    if any(each.name == "isolated" for each in cloud.fleet.aggregates):
        yield Removal("forbidden aggregate isolated", wanted, cloud.without_isolation)
    yield Removal("an enabled compute service", wanted, cloud.enabled)
    for name, applies in FILTERS.items():
        if applies(wanted):
            yield Removal(name, wanted, lambda name=name: cloud.without_filter(name))


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign and print what it found; return 1 if an explanation is false."""
    parser = command.Parser("tools/berth why-not", __doc__)
    parser.share(seed=1, minutes=math.inf)
    parser.add("--clouds", 300, "random clouds, each with some requests")
    parser.add("--least", 3, "hosts of a cloud at least")
    parser.add("--most", 300, "hosts of a cloud at most; six of ten have up to 9, one more than 60")
    parser.add("--requests", REQUESTS, "requests in each cloud")
    parser.add("--save", None, "a directory for clouds of false statements, as the suite has them", type=Path)
    options = parser.parse_args(arguments)
    total, end = Report(), time.monotonic() + options.minutes * 60
    kinds = Kinds((options.least, options.most))
    seeds = range(options.seed, options.seed + options.clouds)
    with (
        command.running("why-not") as directory,
        contextlib.closing(run(directory, seeds, options.requests, kinds)) as found,
    ):
        for _seed, report in found:
            total.add(report)
            if time.monotonic() > end:
                break
    for name, count in sorted(total.counts.items()):
        print(f"{count:7}  {name}")
    for problem in total.problems:
        print(f"FALSE {problem}")
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(total.saved if options.save else ()):
        (options.save / f"{number}.json").write_text(text)
    return 1 if total.problems else 0
