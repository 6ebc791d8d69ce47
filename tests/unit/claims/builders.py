"""Candidates, requests and bounds for tests of claims."""

from dataclasses import replace
from types import SimpleNamespace

from hypothesis import strategies as st

from scheduler.placement.allocations import Owner
from scheduler.claims.claim import ClaimRequest
from scheduler.claims.claimer import Claimer
from scheduler.claims.journal import Journal
from scheduler.claims.policy import ClaimPolicy, Timing
from scheduler.placement.answer import AllocationCandidate
from tests.support.clock import Clock
from tests.unit.claims.fake_consumers import FakeConsumers

# No waiting; the background waits for drain().
PROMPT = ClaimPolicy(
    lock_timeout=5.0,
    retry_delay=(0.0, 0.0),
    concurrent_update_tries=4,
    reads_after_reset=(0.0,) * 3,
    reads_after_timeout=(0.0,) * 5,
    late_write_window=0.0,
    recorded_write_delay=0.0,
    cleanup_delays=(3600.0,),
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


class Host:
    """A journal of its own, and processes that see one Placement."""

    def __init__(self, directory, api):
        directory.mkdir()
        # Not one that is written through to the disk: that takes long while others use it.
        self.journal, self.api = Journal(temporary=str(directory)), api

    def start(self, **policy):
        """Return the claimer of a process that starts, and its page."""
        clock = SleepClock()
        claimer = Claimer(self.api, replace(PROMPT, **policy), clock.timing)
        page = self.journal.open_page()
        claimer.open_journal(SimpleNamespace(open_page=lambda: page))
        return claimer, page, clock


def candidate(*providers, root=None):
    root = root or providers[0]
    entries = {provider: {"resources": {"VCPU": 1}} for provider in providers}
    return AllocationCandidate.of(root, tuple(sorted({root, *providers})), entries, {"": list(providers)})


def make_request(uuid=UUID, where=A, evacuating_from=(), host=""):
    return ClaimRequest(uuid, candidate(where), OWNER, None, evacuating_from, host)


def make_claimer(write_faults=(), read_faults=(), policy=PROMPT, timing=None, **others):
    api = FakeConsumers({A: 1, B: 1}, write_faults=list(write_faults), read_faults=list(read_faults))
    return Claimer(api, policy, timing or Timing(), **others), api


def claim(claimer, where=A, evacuating_from=(), uuid=UUID):
    return claimer.claim(make_request(uuid, where, evacuating_from))
