"""Every bound of a claim, with the reason for its value, and the clock that claims go by."""

from collections.abc import Callable
from dataclasses import dataclass
import random
import time


@dataclass(frozen=True, slots=True)
class Timing:
    """Clock, sleep and randomness of claims.

    Attributes:
        monotonic: Returns the time in seconds.
        sleep: Waits for a number of seconds.
        uniform: Returns a random number between two bounds.
    """

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    uniform: Callable[[float, float], float] = random.uniform


@dataclass(frozen=True, slots=True)
class ClaimPolicy:
    """Time limits and delays in seconds, and numbers of attempts.

    The defaults suit Placement behind a web server and a database.

    Attributes:
        claim_timeout: Limit of a whole claim. No further write is sent after it. Two minutes are longer than
            all delays below together, and far shorter than a caller waits.
        lock_timeout: Limit for waiting until another claim for the same instance or on the same host ends.
            Claims take milliseconds: after half a minute the other one waits for Placement, and so would
            this.
        retry_delay: Shortest and longest random delay after a concurrent update. It is random so that claims
            that collided once do not collide again (spec: placement-and-workflow 4.9 step 4).
        longest_retry_delay: Longest delay while an earlier write of the claim may still be at work. The delay
            doubles each time: most such writes end soon, and the others hold up the database, which is then
            not to be asked much.
        concurrent_update_tries: Writes of a claim that may end in a concurrent update. Nova makes 4 with
            longer delays; under load a third of the writes collide, so that 8 rarely fail.
        consumer_conflicts: How often a claim starts again from what the consumer turned out to hold. One is
            an evacuation or an abandoned request; a fifth can only come from another writer.
        reads_after_reset: Delays before the reads that follow a broken connection or a 5xx response. The
            server has the request, and works on it for some milliseconds (spec: placement-and-workflow 4.6).
        reads_after_timeout: The same after a read timeout. The server may work on the request for as long as
            its own time limits allow.
        resends: How often a write without a response or an effect is sent again. Each can overlap with the
            one before it.
        late_write_window: After this time, a write without a response is not expected to be carried out. It
            is the usual time limit of web servers and proxies in front of Placement.
        batch_size: Instances in one request to Placement. The work of Placement grows with their number, and
            other writers wait until its transaction ends (spec: placement-and-workflow 4.9 step 2).
        confirm_size: Instances whose allocations are confirmed in one request. They are more than in a batch:
            none of a request's are to be confirmed without the others. A hundred keep Placement busy for
            half a second (spec: placement-and-workflow 4.9 step 2).
        reads_at_once: Instances whose allocations a request reads at the same time. Placement serves a few
            requests at once, and others want some of them.
        batch_refusals: Refusals after which the rest of a batch is claimed one by one. More of them mean that
            the hosts are nearly full, and each costs a request (spec: placement-and-workflow 4.9 step 3).
        release_timeout: How long a request waits for the release of its claims, which then goes on in the
            background. Its caller waits for the error, and learns nothing from the release.
        cleanup_delays: Delays between the attempts of a cleanup in the background; the last one repeats. The
            first are short because most outages are.
        recorded_claim_delay: How long the recorded claims of a dead process are left alone. The broker
            delivers their request once more, to a process that confirms what its first delivery may have been
            answered with; that takes a second or two.
        recorded_write_delay: How long a claim waits, from when the record of a dead process for the same
            instance was taken over. Placement may still be working on the write of that process, as after a
            broken connection, and two writes for one consumer must not overlap.
        cleanup_timeout: After this time an error in the log names the allocations of a cleanup, which goes
            on. It is longer than a restart of Placement and its database takes.
        cleanup_capacity: Pending cleanups that are kept. It bounds memory; the allocations of further ones
            are logged as errors, and left to the next process.
        drain_delay: Delay between attempts while the process stops: its time is short.
        empty_consumers: Empty consumers that are remembered. A forgotten one costs its next claim two
            requests.
    """

    claim_timeout: float = 120.0
    lock_timeout: float = 30.0
    retry_delay: tuple[float, float] = (0.05, 0.5)
    longest_retry_delay: float = 4.0
    concurrent_update_tries: int = 8
    consumer_conflicts: int = 4
    reads_after_reset: tuple[float, ...] = (0.0, 0.3, 1.0)
    reads_after_timeout: tuple[float, ...] = (0.0, 1.0, 2.0, 4.0, 8.0)
    resends: int = 2
    late_write_window: float = 30.0
    batch_size: int = 20
    confirm_size: int = 100
    reads_at_once: int = 4
    batch_refusals: int = 3
    release_timeout: float = 2.0
    cleanup_delays: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
    recorded_claim_delay: float = 10.0
    recorded_write_delay: float = 1.3
    cleanup_timeout: float = 1800.0
    cleanup_capacity: int = 10_000
    drain_delay: float = 0.2
    empty_consumers: int = 10_000

    def reads_after(self, *, timed_out: bool) -> tuple[float, ...]:
        """Return the delays before the reads that follow a lost response."""
        return self.reads_after_timeout if timed_out else self.reads_after_reset
