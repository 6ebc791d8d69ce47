"""Every bound of a claim beyond those of its writes, with the reason for its value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClaimPolicy:
    """Time limits and delays in seconds, and numbers of attempts.

    The defaults suit Placement behind a web server and a database.

    Attributes:
        claim_timeout: Limit of a whole claim. No further write is sent after it. It is as long as requests
            wait in an outage of Placement, and far shorter than a caller waits.
        lock_timeout: Limit for waiting until another claim for the same instance ends. Claims
            take milliseconds: after half a minute the other one waits for Placement, and so would this.
        consumer_conflicts: How often a claim starts again from what the consumer turned out to hold. One is
            an evacuation or an abandoned request; a fifth can only come from another writer.
        batch_size: Instances in one request to Placement. The work of Placement grows with their number, and
            other writers wait until its transaction ends (spec: placement-and-workflow 4.9 step 2).
        confirm_size: Instances whose allocations are confirmed in one request. They are more than in a batch:
            none of a request's are to be confirmed without the others. A hundred keep Placement busy for
            half a second (spec: placement-and-workflow 4.9 step 2).
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
    """

    claim_timeout: float = 60.0
    lock_timeout: float = 30.0
    consumer_conflicts: int = 4
    batch_size: int = 20
    confirm_size: int = 100
    release_timeout: float = 2.0
    cleanup_delays: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
    recorded_claim_delay: float = 10.0
    recorded_write_delay: float = 1.3
    cleanup_timeout: float = 1800.0
    cleanup_capacity: int = 10_000
    drain_delay: float = 0.2
