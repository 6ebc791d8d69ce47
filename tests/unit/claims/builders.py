"""Candidates, requests and bounds for tests of claims."""

from hypothesis import strategies as st

from scheduler.claims.claims import Claims, Pass
from scheduler.claims.doubts import Kept
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.allocations import ConsumerAllocations, Owner
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.write_policy import Timing, WritePolicy
from scheduler.request.instance_state import all_waiting
from tests.support.clock import Clock
from tests.unit.claims.fake_consumers import FakeConsumers

# No waiting.
PROMPT = WritePolicy(
    retry_delay=(0.0, 0.0),
    late_delay=0.0,
    outage_delay=0.0,
    concurrent_update_tries=4,
    reads_after_reset=(0.0,) * 3,
    reads_after_timeout=(0.0,) * 5,
    late_write_window=0.0,
)
UUID = "instance"
A, B, C, GONE = "aaaa", "bbbb", "cccc", "dead"
OWNER = Owner("project", "user")

#: Faults of writes and reads of ``FakeConsumers``, for random sequences.
FAULTS = st.sampled_from(
    [
        "ok",
        "lost",
        "unanswered",
        "timeout",
        "late 1",
        "late 3",
        "late 9",
        "500",
        "500 after",
        "concurrent",
        "unreachable",
    ]
)
READS = st.sampled_from(["ok", "ok", "silent"])


class SleepClock(Clock):
    """A clock that only sleeping moves on; ``slept`` lists for how long."""

    def __init__(self):
        super().__init__()
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    @property
    def timing(self):
        """Random numbers are the lower bound."""
        return Timing(self, self.sleep, lambda low, high: low)


def candidate(*providers, root=None):
    """What takes one of each provider: a CPU, of ``disks`` a GB."""
    root = root or providers[0]
    entries = {
        provider: {"resources": {"DISK_GB" if provider == "disks" else "VCPU": 1}} for provider in providers
    }
    return AllocationCandidate.of(root, tuple(sorted({root, *providers})), entries, {"": list(providers)})


def holding(*where, generation=1):
    return ConsumerAllocations(candidate(*where).allocations, generation, OWNER)


def make_pass(evacuating_from=(), **fields):
    return Pass(OWNER, kept=Kept(frozenset(evacuating_from)), **fields)


def make_claimer(write_faults=(), read_faults=(), **others):
    api = FakeConsumers({A: 1, B: 1}, write_faults=list(write_faults), read_faults=list(read_faults))
    return claimer_of(api, **others), api


def claimer_of(api, policy=PROMPT, timing=None, states=all_waiting, **others):
    """Return the claimer of a process that writes to a Placement."""
    return Claims(writer_of(api, policy, timing), states, **others)


def writer_of(api, policy=PROMPT, timing=None):
    return AllocationWriter(api, policy, timing or Timing())


def claim(claimer, where=A, evacuating_from=(), uuid=UUID):
    return claimer.claim({uuid: candidate(where)}, make_pass(evacuating_from))[uuid]
