"""Load real schedulers on real servers, break one part after another, and compare replies with Placement."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
import contextlib
import dataclasses
import itertools
import logging
import random
import time
from typing import Any

import sqlalchemy as sa

from conductor_client.claims import Allocations, placement_adapter
from conductor_client.client import SchedulerClient
from scheduler.nova_db.schema import build_requests, instance_mappings
from tools.rig import command, faults, truth
from tools.rig.chaos_cloud import QUEUES, ChaosCloud
from tools.rig.load import Call, Callers, Flavor, random_requests

CALLERS = 4
FLAVORS = (Flavor(1, "tiny", 1, 512, 1),)
SIZES = (1, 1, 2, 3)
CALL_TIMEOUT = 150.0  # seconds for which a caller waits
LONGEST_PAUSE = 0.3  # seconds between two requests of a caller
CLEAN = 4.0  # seconds of usual service after which it counts as restored
CALM = 3.0  # seconds of load before a fault, at least
CALM_REQUESTS = 8  # requests that are answered before a fault, at least
LONGEST_CALM = 60.0  # seconds in which they must be answered
USUAL = 5.0  # seconds in which a request is answered on a machine with nothing else to do
SLACK = 2.0  # by this factor a request may take longer than the slowest one before the fault
SHORTEST, LONGEST = 2.0, 12.0  # seconds that a fault lasts
RECOVERY_LIMIT = 15.0  # seconds after healing in which the service must be as before
LONGEST_RECOVERY = 60.0  # seconds after which a round ends without usual service
SETTLE_TIME = 75.0  # seconds in which what was claimed in vain must be given back
COLUMNS = ("requests", "answered", "refused", "lost", "wrong", "leaked")
MOST_PROBLEMS = 5  # lines of each round that are printed


@dataclasses.dataclass
class Outcome:
    """What one round showed.

    Attributes:
        fault: The name of the fault.
        requests: How many were sent.
        answered: How many got hosts.
        refused: How many got an error of the scheduler.
        lost: How many got nothing, although the broker has no message of theirs any more.
        wrong: Answered instances that hold something else than the reply says, over-committed inventories.
        leaked: Other instances that hold something.
        recovery: Seconds from healing until requests were served as before.
        settled: Seconds from the last answer until nothing was wrong or leaked.
        limit: Seconds within which requests had to be answered, by those before the fault.
        problems: One line each.
    """

    fault: str
    requests: int
    answered: int
    refused: int
    lost: int
    wrong: int
    leaked: int
    recovery: float
    settled: float
    limit: float
    problems: list[str] = dataclasses.field(default_factory=list)

    @property
    def kept(self) -> bool:
        """Whether the promise was kept, and in time: no build failed either, but where that may be."""
        failed = self.refused and self.fault not in faults.MAY_REFUSE
        return not (failed or self.lost or self.wrong or self.leaked) and self.recovery <= RECOVERY_LIMIT


class Rounds:
    """Runs rounds on a cloud, one after the other: load, a fault, its healing, and the truth."""

    def __init__(self, cloud: ChaosCloud, rng: random.Random, callers: int = CALLERS) -> None:
        """Load the schedulers of a cloud by some callers; ``rng`` draws times and requests."""
        self._cloud = cloud
        self._rng = rng
        self._callers = callers
        self._api = sa.create_engine(cloud.conf.api_database.connection, pool_pre_ping=True)
        self._client = SchedulerClient(cloud.bus, timeout=CALL_TIMEOUT)
        self._allocations = Allocations(placement_adapter(cloud.conf))

    def run(
        self, name: str, fault: faults.Fault, longest: float = LONGEST, shortest: float = SHORTEST
    ) -> Outcome:
        """Run one round with a fault that lasts for so many seconds at most, and at least."""
        requests = random_requests(random.Random(self._rng.random()), SIZES, 0, FLAVORS)
        hooks = {"before": self._requested, "after": self._given_up}
        with Callers(self._client, requests, self._callers, pause=LONGEST_PAUSE, **hooks) as load:
            limit = self._usual_limit(load)
            healed = self._break(fault, self._rng.uniform(min(shortest, longest), longest))
            _until(lambda: is_as_usual(load.calls, healed, time.monotonic(), limit), LONGEST_RECOVERY)
        outcome = self._check(name, load.calls, healed, limit)
        for instance in itertools.chain(*(call.request.uuids for call in load.calls)):
            self._allocations.remove(instance)
        return outcome

    def _requested(self, call: Call) -> None:
        """Write that a caller waits for hosts, as the API does before a build."""
        rows = [{"instance_uuid": uuid, "project_id": "project"} for uuid in call.request.uuids]
        self._write((instance_mappings.insert(), rows), (build_requests.insert(), rows))

    def _given_up(self, call: Call) -> None:
        """Write that a build was given up, if it was."""
        if call.error:
            gone = build_requests.c.instance_uuid.in_(call.request.uuids)
            self._write((build_requests.delete().where(gone), None))

    def _write(self, *statements: tuple[Any, Any]) -> None:
        with contextlib.suppress(sa.exc.SQLAlchemyError), self._api.begin() as connection:
            for statement, rows in statements:
                connection.execute(statement, rows)

    def _break(self, fault: faults.Fault, seconds: float) -> float:
        """Break and heal, and return when it was healed: servers are up again by then, schedulers begin."""
        end = time.monotonic() + seconds
        with fault(seconds):
            time.sleep(max(0.0, end - time.monotonic()))
        return time.monotonic()

    def _usual_limit(self, load: Callers) -> float:
        """Let requests be answered, and return how long one may take if the service is as usual."""
        started = time.monotonic()

        def answered() -> list[float]:
            return [call.seconds for call in list(load.calls) if call.selections]

        _until(lambda: len(answered()) >= CALM_REQUESTS and time.monotonic() > started + CALM, LONGEST_CALM)
        if len(answered()) < CALM_REQUESTS:
            raise RuntimeError("The schedulers do not answer requests before anything is broken")
        return max(USUAL, SLACK * max(answered()))

    def _check(self, name: str, calls: Sequence[Call], healed: float, limit: float) -> Outcome:
        unanswered = [call for call in calls if call.unanswered]
        refused = [call for call in calls if call.error and not call.unanswered]
        unknown = {uuid for call in unanswered for uuid in call.request.uuids}
        expected, providers = truth.promised(calls, self._cloud.fleet), self._cloud.fleet.providers()
        started = time.monotonic()
        found = truth.settled(
            lambda: truth.check(self._cloud.placement_url, providers, expected, unknown), SETTLE_TIME
        )
        waiting = self._cloud.waiting_messages() if unanswered else 0
        return Outcome(
            fault=name,
            requests=len(calls),
            answered=sum(bool(call.selections) for call in calls),
            refused=len(refused),
            lost=max(0, len(unanswered) - waiting),
            wrong=found.wrong + len(found.overcommitted),
            leaked=found.left_over,
            recovery=recovery_time(calls, healed, limit),
            settled=time.monotonic() - started,
            limit=limit,
            problems=[
                *found.problems,
                *(f"No answer for {call.request.uuids}" for call in unanswered),
                *(f"{call.error} for {call.request.uuids}" for call in refused),
            ],
        )


def _until(condition: Any, seconds: float) -> None:
    """Wait until a condition holds, but no longer than so many seconds."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.2)


def _served(call: Call, limit: float) -> bool:
    return bool(call.selections) and call.seconds <= limit


def recovery_time(calls: Iterable[Call], healed: float, limit: float) -> float:
    """Return the seconds from healing until the service was as before.

    That is when the first request that was sent after healing was served, and the last one ended that was not
    served within the limit.
    """
    later = [call for call in calls if call.sent >= healed]
    late = [call.sent + call.seconds for call in later if not _served(call, limit)]
    first = min((call.sent + call.seconds for call in later if _served(call, limit)), default=healed)
    return max(first, *late) - healed if late else first - healed


def is_as_usual(calls: Iterable[Call], healed: float, now: float, limit: float) -> bool:
    """Return whether the last requests after healing were served within the limit, and no older one waits."""
    known = list(calls)
    recent = [call for call in known if call.sent > max(healed, now - CLEAN)]
    older = [call for call in known if call.sent <= now - max(CLEAN, limit)]
    return (
        now - healed >= CLEAN
        and any(_served(call, limit) for call in recent)
        and all(_served(call, limit) or call.ended is None for call in recent)
        and all(call.ended is not None for call in older)
    )


def draw(names: Sequence[str], rounds: int | None, rng: random.Random) -> list[str]:
    """Return which faults to run: all of them in some order, again and again, up to so many rounds."""
    wanted = len(names) if rounds is None else rounds
    drawn: list[str] = []
    while len(drawn) < wanted:
        drawn += rng.sample(names, len(names))
    return drawn[:wanted]


def print_table(outcomes: Iterable[Outcome]) -> None:
    """Print one line for each fault: sums over its rounds, and the longest recovery."""
    by_fault: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_fault.setdefault(outcome.fault, []).append(outcome)
    titles = [f"{title:>8}" for title in ("rounds", *COLUMNS, "back (s)", "tidy (s)")]
    print(f"\n{'fault':26}{' '.join(titles)}")
    for fault, rounds in sorted(by_fault.items()):
        print(_row(fault, rounds))
    print(_row("all", [outcome for rounds in by_fault.values() for outcome in rounds]))


def _row(name: str, rounds: Sequence[Outcome]) -> str:
    sums = [sum(getattr(outcome, column) for outcome in rounds) for column in COLUMNS]
    times = [max(getattr(outcome, field) for outcome in rounds) for field in ("recovery", "settled")]
    cells = [f"{number:8}" for number in (len(rounds), *sums)] + [f"{seconds:8.1f}" for seconds in times]
    return f"{name:26}{' '.join(cells)}{'' if all(outcome.kept for outcome in rounds) else '  BROKEN'}"


def main(arguments: list[str] | None = None) -> int:
    """Run the rounds, print a line for each and a table; return 1 if a promise was broken."""
    options = _parse(arguments)
    drawn = draw(options.only or list(faults.NAMES), options.rounds, random.Random(options.seed))
    with command.running("chaos", options.directory) as directory:
        logging.disable(logging.CRITICAL)  # of the callers' libraries, which tell of each lost connection
        started = time.monotonic()
        with ChaosCloud(directory, options.queues) as cloud:
            seconds = time.monotonic() - started
            print(f"A cloud with {options.queues} queues, started in {seconds:.0f} s", flush=True)
            if not all(disk.mounted for disk in cloud.disks):
                print("No tmpfs can be mounted: a limit for the size of files stands in for a full disk")
            if not cloud.clock:
                print("There is no C compiler: no clock jumps")
            outcomes = list(_run(cloud, drawn, options))
    print_table(outcomes)
    return 0 if all(outcome.kept for outcome in outcomes) else 1


def _run(cloud: ChaosCloud, drawn: Sequence[str], options: argparse.Namespace) -> Iterator[Outcome]:
    end = time.monotonic() + options.minutes * 60
    for number, name in enumerate(drawn, 1):
        # of its own for each round: what a round draws does not depend on how many requests others sent
        rng = random.Random(f"{options.seed} {number} {name}")
        fault = faults.make(name, cloud, rng)
        if fault is None:
            continue
        if time.monotonic() > end:
            print(f"The time is over: {len(drawn) - number + 1} rounds were not run")
            return
        rounds = Rounds(cloud, rng, options.callers)
        outcome = rounds.run(name, fault, options.seconds or LONGEST, options.seconds or SHORTEST)
        yield outcome
        print(
            f"{number:3} {name}: {outcome.answered} of {outcome.requests} answered,"
            f" as usual within {outcome.limit:.1f} s,"
            f" back after {outcome.recovery:.1f} s (at most {RECOVERY_LIMIT:.0f}),"
            f" tidy after {outcome.settled:.1f} s",
            flush=True,
        )
        for line in outcome.problems[:MOST_PROBLEMS]:
            print(f"      {line}")
        for scheduler in cloud.schedulers:
            if scheduler.status is not None:
                raise SystemExit(f"A scheduler has ended with status {scheduler.status}; see {scheduler.log}")


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = command.Parser("tools/chaos", __doc__)
    parser.share(callers=CALLERS, minutes=240.0, seed=1, directory=None)
    parser.add("--rounds", None, "rounds to run (default: one for each fault)", type=int)
    only = {"action": "append", "choices": faults.NAMES, "metavar": "FAULT"}
    parser.add("--only", None, "this fault; may be repeated", **only)
    parser.add("--queues", "classic", "queues of the broker", choices=sorted(QUEUES))
    lasts = f"how long each fault lasts (default: {SHORTEST:g} to {LONGEST:g})"
    parser.add("--seconds", None, lasts, type=float)
    return parser.parse_args(arguments)
