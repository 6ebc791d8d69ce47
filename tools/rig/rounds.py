"""Rounds of load, a fault, its healing, and the truth about what came of the requests."""

from collections.abc import Iterable, Iterator, Sequence
import contextlib
import dataclasses
import random
import time

import sqlalchemy as sa

from conductor_client.claims import Allocations
from conductor_client.client import SchedulerClient
from tools.rig import faults, truth
from tools.rig.load import BootRequest, Call, Callers, Flavor, random_requests
from tools.rig.rows import ApiRows
from tools.rig.service import until
from tools.rig.world import RunningWorld

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


@dataclasses.dataclass
class Outcome:
    """What one round with a fault showed.

    Attributes:
        lost: Requests that got nothing, although the broker has no message of theirs any more.
        wrong: Answered instances that hold something else than the reply says, over-committed inventories.
        leaked: Other instances that hold something.
        recovery: Seconds from healing until requests were served as before.
        settled: Seconds from the last answer until nothing was wrong or leaked.
        limit: Seconds within which requests had to be answered, by those before the fault.
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
    recovery_limit: float = RECOVERY_LIMIT
    problems: list[str] = dataclasses.field(default_factory=list)

    @property
    def kept(self) -> bool:
        """Whether the promise was kept, and in time: no build failed either, but where that may be."""
        failed = self.refused and self.fault not in faults.MAY_REFUSE
        return not (failed or self.lost or self.wrong or self.leaked) and self.recovery <= self.recovery_limit


def all_different(requests: Iterable[BootRequest], rng: random.Random) -> Iterator[BootRequest]:
    """Give each request values of its own: what a scheduler keeps by these must not grow."""
    for request in requests:
        noted = request.flavor._replace(extra_specs=(("hw:note", str(rng.random())),))
        yield dataclasses.replace(request, flavor=noted, project=f"project-{rng.randrange(5000)}")


class Rounds:
    """Runs rounds on a cloud, one after the other: load, a fault, its healing, and the truth."""

    def __init__(
        self,
        cloud: RunningWorld,
        callers: int = CALLERS,
        *,
        insist: bool = False,
        recovery_limit: float = RECOVERY_LIMIT,
    ) -> None:
        """Load the schedulers of a cloud by some callers.

        With ``insist`` a caller sends a request only once the API database has it, as nova-api does.
        """
        self._cloud = cloud
        self._insist = insist
        self._recovery_limit = recovery_limit
        self._callers = callers
        api = sa.create_engine(cloud.conf.api_database.connection, pool_pre_ping=True)
        self._rows = ApiRows(api)
        self._client = SchedulerClient(cloud.bus, timeout=CALL_TIMEOUT)
        self._allocations = Allocations.from_conf(cloud.conf)

    def run(
        self,
        name: str,
        fault: faults.Fault,
        rng: random.Random,
        longest: float = LONGEST,
        shortest: float = SHORTEST,
    ) -> Outcome:
        """Run one round with a fault that lasts for so many seconds at most, and at least.

        ``rng`` draws requests and times.
        """
        drawn = random.Random(rng.random())
        requests = all_different(random_requests(drawn, SIZES, 0, FLAVORS), drawn)
        hooks = {"before": self._requested, "after": self._given_up}
        with Callers(self._client, requests, self._callers, pause=LONGEST_PAUSE, **hooks) as load:
            limit = self._usual_limit(load)
            healed = self._break(fault, rng.uniform(min(shortest, longest), longest))
            with contextlib.suppress(RuntimeError):  # the outcome says how long it took, or that it never was
                until(lambda: is_as_usual(load.calls, healed, time.monotonic(), limit), "", LONGEST_RECOVERY)
        outcome = self._check(name, load.calls, healed, limit)
        for call in load.calls:
            for instance in call.request.uuids:
                self._allocations.remove(instance)
        return outcome

    def _requested(self, call: Call) -> None:
        while not self._write_request(call) and self._insist:
            time.sleep(1)
            call.sent = time.monotonic()

    def _write_request(self, call: Call) -> bool:
        with contextlib.suppress(sa.exc.SQLAlchemyError):  # the database may be what is broken
            self._rows.requested(call.request.uuids)
            return True
        return False

    def _given_up(self, call: Call) -> None:
        with contextlib.suppress(sa.exc.SQLAlchemyError):
            if call.error:
                self._rows.ended(call.request.uuids)

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

        until(
            lambda: len(answered()) >= CALM_REQUESTS and time.monotonic() > started + CALM,
            "The schedulers do not answer requests before anything is broken",
            LONGEST_CALM,
        )
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
            wrong=found.wrong,
            leaked=found.left_over,
            recovery=recovery_time(calls, healed, limit),
            settled=time.monotonic() - started,
            limit=limit,
            recovery_limit=self._recovery_limit,
            problems=[
                *found.problems,
                *(f"No answer for {call.request.uuids}" for call in unanswered),
                *(f"{call.error} for {call.request.uuids}" for call in refused),
            ],
        )


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
