"""One round: load, a fault, its healing, and the comparison of what callers were told with Placement."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
import random
import time

from conductor_client.claims import Allocations, placement_adapter
from conductor_client.client import SchedulerClient
from tools.faults.load import (
    CALL_TIMEOUT,
    CALLERS,
    Call,
    Load,
    Requested,
    expected_allocations,
    is_as_usual,
    recovery_time,
)
from tools.rig import truth
from tools.rig.chaos_cloud import ChaosCloud
from tools.rig.faults import MAY_REFUSE, Fault

CALM = 3.0  # seconds of load before a fault, at least
CALM_REQUESTS = 8  # requests that are answered before a fault, at least
LONGEST_CALM = 60.0  # seconds in which they must be answered
USUAL = 5.0  # seconds in which a request is answered on a machine with nothing else to do
SLACK = 2.0  # by this factor a request may take longer than the slowest one before the fault
SHORTEST, LONGEST = 2.0, 12.0  # seconds that a fault lasts
RECOVERY_LIMIT = 15.0  # seconds after healing in which the service must be as before
LONGEST_RECOVERY = 60.0  # seconds after which a round ends without usual service
SETTLE_TIME = 75.0  # seconds in which what was claimed in vain must be given back


@dataclass
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
    problems: list[str] = field(default_factory=list)

    @property
    def kept(self) -> bool:
        """Whether the promise was kept, and in time: no build failed either, but where that may be."""
        failed = self.refused and self.fault not in MAY_REFUSE
        return not (failed or self.lost or self.wrong or self.leaked) and self.recovery <= RECOVERY_LIMIT


class Rounds:
    """Runs rounds on a cloud, one after the other."""

    def __init__(self, cloud: ChaosCloud, rng: random.Random, callers: int = CALLERS) -> None:
        """Load the schedulers of a cloud by some callers; ``rng`` draws times and requests."""
        self._cloud = cloud
        self._rng = rng
        requested = Requested(cloud.conf.api_database.connection)
        self._load = Load(SchedulerClient(cloud.bus, timeout=CALL_TIMEOUT), rng, requested, callers)
        self._allocations = Allocations(placement_adapter(cloud.conf))
        self._providers = [host.provider() for host in cloud.fleet.hosts]
        self._uuids = {host.nodename: host.uuid for host in cloud.fleet.hosts}

    def run(self, name: str, fault: Fault, longest: float = LONGEST, shortest: float = SHORTEST) -> Outcome:
        """Run one round.

        Args:
            name: The name of the fault.
            fault: What to break and to heal.
            longest: Seconds that it may last.
            shortest: Seconds that it lasts at least.
        """
        self._load.start()
        limit = self._usual_limit()
        healed = self._break(fault, self._rng.uniform(min(shortest, longest), longest))
        self._wait_for_service(healed, limit)
        self._load.stop()
        outcome = self._check(name, self._load.calls, healed, limit)
        for call in self._load.calls:
            for instance in call.uuids:
                self._allocations.remove(instance)
        return outcome

    def _break(self, fault: Fault, seconds: float) -> float:
        """Break and heal, and return when it was healed: servers are up again by then, schedulers begin."""
        end = time.monotonic() + seconds
        try:
            fault.begin(seconds)
            time.sleep(max(0.0, end - time.monotonic()))
        finally:
            fault.heal()
        return time.monotonic()

    def _usual_limit(self) -> float:
        """Let requests be answered, and return how long one may take if the service is as usual."""
        started = time.monotonic()
        while time.monotonic() < started + LONGEST_CALM:
            time.sleep(0.2)
            answered = [call.seconds for call in list(self._load.calls) if call.nodes]
            if time.monotonic() > started + CALM and len(answered) >= CALM_REQUESTS:
                return max(USUAL, SLACK * max(answered))
        raise RuntimeError("The schedulers do not answer requests before anything is broken")

    def _wait_for_service(self, healed: float, limit: float) -> None:
        while time.monotonic() < healed + LONGEST_RECOVERY:
            time.sleep(0.2)
            if is_as_usual(self._load.calls, healed, time.monotonic(), limit):
                return

    def _check(self, name: str, calls: Sequence[Call], healed: float, limit: float) -> Outcome:
        unanswered = [call for call in calls if call.unanswered]
        started = time.monotonic()
        found = self._settled_truth(
            expected_allocations(calls, self._uuids), {uuid for call in unanswered for uuid in call.uuids}
        )
        waiting = self._cloud.waiting_messages() if unanswered else 0
        return Outcome(
            fault=name,
            requests=len(calls),
            answered=sum(bool(call.nodes) for call in calls),
            refused=sum(bool(call.error) and not call.unanswered for call in calls),
            lost=max(0, len(unanswered) - waiting),
            wrong=found.wrong + len(found.overcommitted),
            leaked=found.left_over,
            recovery=recovery_time(calls, healed, limit),
            settled=time.monotonic() - started,
            limit=limit,
            problems=[
                *found.problems,
                *(f"No answer for {call.uuids}" for call in unanswered),
                *(f"{call.error} for {call.uuids}" for call in calls if call.error and not call.unanswered),
            ],
        )

    def _settled_truth(
        self, expected: Mapping[str, tuple[str, Mapping[str, int]]], unknown: set[str]
    ) -> truth.Truth:
        """Compare until there is no problem, or the time to settle is over."""
        end = time.monotonic() + SETTLE_TIME
        while True:
            found = truth.check(self._cloud.placement_url, self._providers, expected, unknown)
            if not found.problems or time.monotonic() > end:
                return found
            time.sleep(1)
