"""Whole requests against a Placement that fails at every step: who was answered holds what the answer says, and
nobody else holds anything.
"""

import collections
from concurrent.futures import ThreadPoolExecutor
import contextlib
from dataclasses import replace
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

from scheduler.claims import cleanup
from scheduler.claims.claim_session import ClaimSession
from scheduler.claims.claimer import Claimer
from scheduler.claims.journal import Journal
from scheduler.claims.policy import ClaimPolicy
from scheduler.errors import BerthError
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.view import HostView
from scheduler.numa.fit import Fitter
from scheduler.placement.errors import PlacementSilent
from scheduler.rules import load_weighers as weight_loader
from scheduler.selection.driver import FilterDriver
from scheduler.selection.ranking import NO_FILTERS
from tests.builders import make_table, uuid_of
from tests.unit.claims.fake_consumers import FakeConsumers
from tests.unit.selection.requests import host_with_candidate, make_conf, make_request, make_spec

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

# Few tries, so that a short row of faults exhausts them. Late writes come before the end of the clean-up.
CONTEXT = SimpleNamespace(user_id="user")
HASTY = ClaimPolicy(
    lock=1.0,
    retry=(0.0, 0.0),
    tries=2,
    after_break=(0.0, 0.0),
    after_timeout=(0.0, 0.0),
    resend=1,
    late=1000.0,
    cleanup=(3600.0,),
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


class Mortal(FakeConsumers):
    """Kills its caller at call number ``dies_at``, before or after that is ``carried_out``."""

    dies_at = None
    carried_out = False
    dead = False
    number = 0
    notes = None

    def read(self, *arguments):
        return self._call(super().read, *arguments)

    def put(self, *arguments):
        return self._call(super().put, *arguments)

    def post(self, *arguments):
        return self._call(super().post, *arguments)

    def delete(self, *arguments):
        return self._call(super().delete, *arguments)

    def _call(self, method, *arguments):
        if self.dead:
            raise Killed
        self.number += 1
        if self.number != self.dies_at:
            return method(*arguments)
        self.dead = True
        self.notes._page = None
        if self.carried_out:
            with contextlib.suppress(PlacementSilent):
                method(*arguments)
        raise Killed


@pytest.fixture(scope="module")
def driver():
    conf = make_conf(weight_classes=["nova.scheduler.weights.ram.RAMWeigher"])
    return FilterDriver(conf, NO_FILTERS, weight_loader.load(conf), Fitter())


@pytest.fixture(scope="module")
def journal():
    return Journal()


@pytest.fixture
def later(monkeypatch):
    """Make it late: what was on its way has come."""
    offset = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + offset)
    monkeypatch.setattr(cleanup, "time", clock)

    def move(seconds):
        nonlocal offset
        offset = seconds

    return move


class Run:
    """One request, from its first claim to the end of the clean-up."""

    def __init__(self, scenario, journal, write_faults, read_faults=()):
        self.uuids = [f"i{number}" for number in range(scenario.instances)]
        self.hosts = HOSTS[: len(scenario.slots)]
        room = {uuid_of(f"h{number}"): slot for number, slot in enumerate(scenario.slots) if slot is not None}
        self.api = Mortal({**room, SOURCE: 1}, write_faults=[*write_faults], read_faults=[*read_faults])
        self.before = {}
        if scenario.evacuated:
            self.before = {SOURCE: {"resources": {"VCPU": 2}}}
            self.api.give(self.uuids[0], self.before)
        self.pending = PendingPlacements()
        self.claimer = Claimer(self.api, HASTY)
        self.claimer.keep_notes(journal)
        self.api.notes = self.claimer._notes
        self.reply = None

    def ask(self, driver):
        spec = make_spec(project_id="project", user_id="user")
        request = make_request(spec, self.uuids, with_alternates=True)
        rows = np.arange(len(self.hosts))
        view = HostView.of(TABLE, rows, [host.candidates for host in self.hosts], pending=self.pending)
        ignored = {SOURCE} if self.before else ()
        with (
            contextlib.suppress(BerthError, Killed),
            ClaimSession(self.claimer, self.pending, CONTEXT, spec, self.uuids, ignored) as claims,
        ):
            self.reply = driver.select(view, request, claims)

    def clean_up(self, later):
        later(0.0)
        self.api.settle()
        later(2 * HASTY.late)
        assert self.claimer.drain(5) == []
        later(0.0)

    def die(self, journal):
        """Another process takes its place."""
        with self.claimer._releases._changed:
            self.claimer._releases._pending.clear()
            self.claimer._releases._changed.notify_all()
        self.api.dead = False
        self.claimer = Claimer(self.api, HASTY)
        self.claimer.keep_notes(journal)

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
        assert list(journal.open().left()) == []


each_scenario = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)


@each_scenario
def test_each_fault_at_each_step(driver, journal, later, scenario):
    for number, fault in itertools.product(range(6), WRITES):
        run = Run(scenario, journal, ["ok"] * number + [fault])
        run.ask(driver)
        run.clean_up(later)
        run.check(journal)


@each_scenario
def test_each_pair_of_unclear_faults(driver, journal, later, scenario):
    for *faults, first, second in itertools.product(UNCLEAR, UNCLEAR, READS, READS):
        run = Run(scenario, journal, faults, [first, second])
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
    run = Run(scenario, journal, write_faults, read_faults)
    run.ask(driver)
    run.clean_up(later)
    run.check(journal)


@each_scenario
@pytest.mark.parametrize("carried_out", [False, True])
def test_killed_at_each_step(driver, journal, later, scenario, carried_out):
    for fault, dies_at in itertools.product(("ok", *UNCLEAR), range(1, 7)):
        run = Run(scenario, journal, [fault])
        run.api.dies_at, run.api.carried_out = dies_at, carried_out
        run.ask(driver)
        run.api.dies_at = None
        if run.api.dead:
            run.die(journal)
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

    def read(self, *arguments):
        with self.lock:
            return super().read(*arguments)

    def put(self, uuid, body, context=None):
        with self._alone([uuid, *body["allocations"]]), self.lock:
            return super().put(uuid, body)

    def post(self, bodies, context=None):
        providers = {provider for body in bodies.values() for provider in body["allocations"]}
        with self._alone([*bodies, *providers]), self.lock:
            return super().post(bodies)

    def delete(self, uuid, context=None):
        with self._alone([uuid]), self.lock:
            return super().delete(uuid)

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
    claimer = Claimer(api, replace(HASTY, lock=20.0, tries=9))
    claimer.keep_notes(journal)
    pending = PendingPlacements()
    replies = []

    def ask(uuids):
        spec = make_spec(project_id="project", user_id="user")
        request = make_request(spec, uuids, with_alternates=True)
        view = HostView.of(TABLE, np.arange(4), [host.candidates for host in HOSTS], pending=pending)
        with contextlib.suppress(BerthError):
            with ClaimSession(claimer, pending, CONTEXT, spec, uuids) as claims:
                found = driver.select(view, request, claims)
            replies.append((uuids, found))

    wanted = [[f"i{number}"] for number in range(60)] + [
        [f"m{number}-{one}" for one in range(3)] for number in range(20)
    ]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, wanted))
    api.settle()
    later(2 * HASTY.late)
    assert claimer.drain(20) == []
    assert api.overlaps == []
    claimed = {
        uuid: json.loads(selections[0].allocation_request)["allocations"]
        for uuids, found in replies
        for uuid, selections in zip(uuids, found, strict=True)
    }
    assert {uuid: held.allocations for uuid, held in api.consumers.items() if held.allocations} == claimed
    assert 0 < len(claimed) < 120
    assert list(journal.open().left()) == []
