"""Whole requests against a Placement that fails at every step: who was answered holds what the answer says, and
nobody else holds anything.
"""

import collections
from concurrent.futures import ThreadPoolExecutor
import contextlib
import itertools
import json
from random import Random
import threading
import time
from types import SimpleNamespace
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from scheduler.claims.claim_session import ClaimSession, ComputeNodes
from scheduler.claims.journal import Journal
from scheduler.errors import BerthError
from scheduler.filters.chain import FilterChain
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.view import HostView
from scheduler.numa.fit import Fitter
from scheduler.placement.errors import PlacementSilent, PlacementUnreachable
from scheduler.placement.write_policy import Timing
from scheduler.rules import load_weighers as weight_loader
from scheduler.selection.driver import FilterDriver
from tests.builders import make_table, uuid_of
from tests.unit.claims.builders import Bounds, claimer_of
from tests.unit.claims.fake_consumers import FakeConsumers
from tests.unit.selection.requests import host_with_candidate, make_conf, make_request, make_spec

pytestmark = pytest.mark.slow

WRITES = (
    "ok",
    "lost",
    "unanswered",
    "timeout",
    "late 2",
    "late 99",
    "500",
    "500 after",
    "html",
    "garbage",
    "403",
    "concurrent",
    "unreachable",
)
UNCLEAR = ("lost", "unanswered", "late 2", "late 99", "concurrent")
READS = ("ok", "silent")

# Few tries, so that a short row of faults exhausts them. Late writes come before the end of the clean-up, and
# after the longest claim.
CONTEXT = SimpleNamespace(user_id="user")
HASTY = Bounds().but(
    lock_timeout=1.0,
    retry_delay=(30.0, 30.0),
    concurrent_update_tries=2,
    reads_after_reset=(0.0, 0.0),
    reads_after_timeout=(0.0, 0.0),
    late_write_window=1000.0,
    recorded_write_delay=0.0,
    cleanup_delays=(3600.0,),
)

SOURCE = "source"


class Scenario(NamedTuple):
    """``slots`` of each host, best first; None: Placement does not know its provider any more."""

    instances: int
    slots: list
    evacuated: bool = False


SCENARIOS = {
    "one": Scenario(1, [1]),
    "one among gone and full hosts": Scenario(1, [None, 0, 1, 1]),
    "evacuated": Scenario(1, [0, 1], evacuated=True),
    "two, one without a host": Scenario(2, [1, 0]),
    "three, of which some compete": Scenario(3, [1, 1, 2]),
}


HOSTS = [host_with_candidate(f"h{number}").ram(9000 - number) for number in range(4)]
TABLE = make_table(HOSTS)


class Killed(BaseException):
    """The process ends here."""


class Mortal:
    """What one process sees of Placement and of its page of the journal.

    The process is killed at call number ``dies_at``, before or after that is ``carried_out``; from then on it
    changes neither.
    """

    def __init__(self, consumers, journal):
        self.consumers = consumers
        self.page = journal.open_page()
        self.dies_at, self.carried_out = None, False
        self.dead = False
        self.end = Killed
        self.number = 0

    def get(self, *arguments):
        return self._call(self.consumers.get, *arguments)

    def write(self, *arguments):
        return self._call(self.consumers.write, *arguments)

    def _call(self, method, *arguments):
        if self.dead:
            raise self.end
        self.number += 1
        if self.number != self.dies_at:
            return method(*arguments)
        if self.carried_out:
            with contextlib.suppress(PlacementSilent):
                method(*arguments)
        self.dead = True
        raise Killed

    def open_page(self):
        return self

    @property
    def messages(self):
        return self.page.messages

    def found_records(self):
        return self.page.found_records()

    def add_records(self, *arguments):
        if not self.dead:
            self.page.add_records(*arguments)

    def recorded_by_others(self, uuids):
        return self.page.recorded_by_others(uuids)

    def remove_records(self, *arguments):
        if not self.dead:
            self.page.remove_records(*arguments)

    def mark_sent(self, *arguments):
        if not self.dead:
            self.page.mark_sent(*arguments)

    def withdraw_records(self, *arguments):
        if not self.dead:
            self.page.withdraw_records(*arguments)

    def withdraw_newest(self, *arguments):
        if not self.dead:
            self.page.withdraw_newest(*arguments)


@pytest.fixture(scope="module")
def driver():
    conf = make_conf(weight_classes=["nova.scheduler.weights.ram.RAMWeigher"])
    return FilterDriver(conf, FilterChain(()), weight_loader.load(conf), Fitter())


@pytest.fixture
def journal(tmp_path):
    return Journal(temporary=str(tmp_path))


class Later:
    """Makes it late: what was on its way has come. ``timing`` goes by it; its sleep takes no time."""

    def __init__(self):
        self.offset = 0.0
        self.timing = Timing(monotonic=lambda: time.monotonic() + self.offset, sleep=self.sleep)

    def sleep(self, seconds):
        self.offset += seconds

    def __call__(self, seconds):
        self.offset = seconds


@pytest.fixture
def later():
    return Later()


class Run:
    """One request, from its first claim to the end of the clean-up."""

    def __init__(self, scenario, journal, later, write_faults, read_faults=()):
        self.uuids = [f"i{number}" for number in range(scenario.instances)]
        self.hosts = HOSTS[: len(scenario.slots)]
        room = {uuid_of(f"h{number}"): slot for number, slot in enumerate(scenario.slots) if slot is not None}
        self.api = FakeConsumers(
            {**room, SOURCE: 1}, write_faults=[*write_faults], read_faults=[*read_faults]
        )
        self.before = {}
        if scenario.evacuated:
            self.before = {SOURCE: {"resources": {"VCPU": 2}}}
            self.api.give(self.uuids[0], self.before)
        self.pending = PendingPlacements()
        self.timing = later.timing
        self.reply = None
        self.process = None
        self.start_process(journal)

    def start_process(self, journal):
        if self.process:
            self.process.page.close()
        self.process = Mortal(self.api, journal)
        self.claimer = claimer_of(self.process, HASTY, self.timing)
        self.claimer.open_journal(self.process)

    def ask(self, driver):
        spec = make_spec(project_id="project", user_id="user")
        request = make_request(spec, self.uuids, context=CONTEXT, with_alternates=True)
        rows = np.arange(len(self.hosts))
        view = HostView.of(TABLE, rows, [host.candidates for host in self.hosts], pending=self.pending)
        ignored = {SOURCE} if self.before else ()
        with contextlib.suppress(BerthError, Killed):
            with ClaimSession(self.claimer, self.pending, request, ComputeNodes(ignored)) as claims:
                self.reply = driver.select(view, request, claims)
            claims.confirm()

    def clean_up(self, later):
        later(0.0)
        self.api.settle()
        later(2 * HASTY.writes.late_write_window)
        assert self.claimer.drain(5) == []
        later(0.0)

    def check(self, journal):
        held = {uuid: one.allocations for uuid, one in self.api.consumers.items() if one.allocations}
        expected = {self.uuids[0]: self.before} if self.before else {}
        for uuid, selections in zip(self.uuids, self.reply or (), strict=self.reply is not None):
            claimed = json.loads(selections[0].allocation_request)["allocations"]
            expected[uuid] = {**claimed, **self.before}
        assert held == expected
        assert not self.api.hidden
        assert {uuid for uuid in self.uuids if self.pending.node_of(uuid)} == set(
            (self.reply and self.uuids) or ()
        )
        self.process.page.close()
        assert found_in(journal) == []


def found_in(journal):
    """What a process that starts now finds recorded."""
    page = journal.open_page()
    page.close()
    return list(page.found_records())


each_scenario = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)


@each_scenario
def test_each_fault_at_each_step(driver, journal, later, scenario):
    for number, fault in itertools.product(range(6), WRITES):
        run = Run(scenario, journal, later, ["ok"] * number + [fault])
        run.ask(driver)
        run.clean_up(later)
        run.check(journal)


@each_scenario
def test_each_pair_of_unclear_faults(driver, journal, later, scenario):
    for *faults, first, second in itertools.product(UNCLEAR, UNCLEAR, READS, READS):
        run = Run(scenario, journal, later, faults, [first, second])
        run.ask(driver)
        run.clean_up(later)
        run.check(journal)


@each_scenario
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    write_faults=st.lists(st.sampled_from(WRITES), min_size=3, max_size=10),
    read_faults=st.lists(st.sampled_from(READS), max_size=10),
)
def test_rows_of_faults(driver, journal, later, scenario, write_faults, read_faults):
    run = Run(scenario, journal, later, write_faults, read_faults)
    run.ask(driver)
    run.clean_up(later)
    run.check(journal)


@each_scenario
@pytest.mark.parametrize("carried_out", [False, True])
def test_killed_at_each_step(driver, journal, later, scenario, carried_out):
    for fault, dies_at in itertools.product(("ok", *UNCLEAR), range(1, 7)):
        run = Run(scenario, journal, later, [fault])
        run.process.dies_at, run.process.carried_out = dies_at, carried_out
        run.ask(driver)
        run.process.dies_at = None
        if run.process.dead:
            run.process.end = PlacementUnreachable  # for its background thread, which ends now
            run.claimer.drain(0)
            run.start_process(journal)
            run.pending = PendingPlacements()
        run.clean_up(later)
        run.check(journal)


class Crowded(FakeConsumers):
    """Lets calls of many threads overlap, and notes which writes of one instance or on one host did."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.lock = threading.Lock()
        self.busy = collections.Counter()
        self.overlaps = []

    def get_allocations(self, *arguments):
        with self.lock:
            return super().get_allocations(*arguments)

    def put_allocations(self, uuid, body, context=None):
        with self._alone([uuid, *body["allocations"]]), self.lock:
            return super().put_allocations(uuid, body)

    def post_allocations(self, bodies, context=None):
        providers = {provider for body in bodies.values() for provider in body["allocations"]}
        with self._alone([*bodies, *providers]), self.lock:
            return super().post_allocations(bodies)

    @contextlib.contextmanager
    def _alone(self, keys):
        with self.lock:
            self.busy.update(keys)
            self.overlaps += [key for key in keys if self.busy[key] > 1]
        time.sleep(0.0005)
        try:
            yield
        finally:
            with self.lock:
                self.busy.subtract(keys)


@pytest.mark.parametrize("seed", range(5))
def test_many_requests_at_once(driver, journal, later, seed):
    """On few hosts, while every third write fails in some way."""
    random = Random(seed)
    faults = [random.choice(WRITES) if number % 3 == 0 else "ok" for number in range(900)]
    api = Crowded({uuid_of(f"h{number}"): 30 for number in range(4)}, write_faults=faults)
    claimer = claimer_of(
        api,
        HASTY.but(lock_timeout=20.0, retry_delay=(0.0, 0.0), concurrent_update_tries=9),
        later.timing,
    )
    process = Mortal(api, journal)
    claimer.open_journal(process)
    pending = PendingPlacements()
    replies = []

    def ask(uuids):
        spec = make_spec(project_id="project", user_id="user")
        request = make_request(spec, uuids, context=CONTEXT, with_alternates=True)
        view = HostView.of(TABLE, np.arange(4), [host.candidates for host in HOSTS], pending=pending)
        with contextlib.suppress(BerthError):
            with ClaimSession(claimer, pending, request) as claims:
                found = driver.select(view, request, claims)
            claims.confirm()
            replies.append((uuids, found))

    wanted = [[f"i{number}"] for number in range(60)] + [
        [f"m{number}-{one}" for one in range(3)] for number in range(20)
    ]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, wanted))
    api.settle()
    later(2 * HASTY.writes.late_write_window)
    assert claimer.drain(20) == []
    assert api.overlaps == []
    claimed = {
        uuid: json.loads(selections[0].allocation_request)["allocations"]
        for uuids, found in replies
        for uuid, selections in zip(uuids, found, strict=True)
    }
    assert {uuid: held.allocations for uuid, held in api.consumers.items() if held.allocations} == claimed
    assert 0 < len(claimed) < 120
    process.page.close()
    assert found_in(journal) == []
