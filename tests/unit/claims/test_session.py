"""The claims of one request: who holds what when it is over."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from scheduler.claims.checks import WITHIN, Finding
from scheduler.claims.claims import Pass, owner_of
from scheduler.claims.doubts import Doubts, Kept
from scheduler.claims.session import Session
from scheduler.errors import AgainstGroupPolicy
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.view import HostView
from scheduler.placement.claim_events import ClaimState
from scheduler.placement.errors import MirrorStale, PlacementUnreachable
from scheduler.placement.outcomes import Outcome
from scheduler.placement.write_policy import LATE_WRITE_WINDOW
from scheduler.request.instance_state import InstanceState
from scheduler.request.past import SOON
from scheduler.rpc.calls import Call
from scheduler.rpc.wire import Frame
from tests.builders import make_host, make_table
from tests.support.idle_loop import IdleLoop
from tests.unit.claims.builders import A, B, SleepClock, candidate, claimer_of, holding
from tests.unit.claims.fake_consumers import FakeConsumers
from tests.unit.selection.requests import make_request, make_spec

WAITING = InstanceState.WAITING


class Told:
    """Writes down what it is told."""

    def __init__(self):
        self.told = []

    def claimed(self, uuid, allocations):
        self.told.append(("claimed", uuid))

    def released(self, uuid, allocations):
        self.told.append(("released", uuid, *allocations))

    def refused(self, provider, resource_class):
        self.told.append(("refused", provider, resource_class))


class World:
    """A session for the instances a, b and c, with Placement and nova behind it."""

    def __init__(self, faults=(), past=False, state=WAITING, deadline=float("inf"), ignored=(), room=9):
        self.api = FakeConsumers({A: room, B: room}, write_faults=[*faults])
        self.clock, self.loop = SleepClock(), IdleLoop()
        self.state = state
        self.claimer = claimer_of(
            self.api, timing=self.clock.timing, states=lambda uuids, _: dict.fromkeys(uuids, self.state)
        )
        self.claimer.doubts = Doubts(
            self.claimer.writer,
            self.claimer.states_of,
            come_to=lambda hosts: [uuid for uuid, host in hosts.items() if host == "host 1"],
            make_loop=self.loop.take,
        )
        call = Call(Frame(identity="message"), past=past)
        context = SimpleNamespace(user_id="caller", call=call)
        spec = make_spec(project_id="project", user_id=None)
        request = make_request(spec, ["a", "b", "c"], context=context, deadline=deadline)
        kept = Kept(frozenset(ignored))
        self.told = Told()
        self.claimer.listeners = (self.told,)
        self.reservations = PendingPlacements()
        self.of_pass = Pass(owner_of(request), context, kept, {A, B}, {A: "host 1"}.get)
        prepare = lambda *_: self.of_pass  # noqa: E731
        self.claims = Session(self.claimer, self.reservations, request, prepare, self.clock)
        self.claims.begin(None, request)

    def look(self, **checks):
        """Begin a pass with these checks."""
        self.of_pass = replace(self.of_pass, **checks)
        self.claims.begin(None, None)

    @property
    def held(self):
        return {uuid: sorted(one.allocations) for uuid, one in sorted(self.api.consumers.items())}

    def claim(self, uuid, where):
        return self.claims.claim({uuid: candidate(where)})[uuid]

    def use(self, *uuids, where=A, then=lambda: None):
        """Claim for each, and do something before the end."""
        with self.claims:
            results = [self.claim(uuid, where) for uuid in uuids]
            then()
        self.claims.close()
        return results


def fail():
    raise ZeroDivisionError


def test_claims_are_released_though_who_is_told_of_them_fails():
    world = World()
    world.told.claimed = lambda *_: fail()
    with pytest.raises(ZeroDivisionError), world.claims:
        world.claims.claim({"a": candidate(A), "b": candidate(B)})
    assert world.held == {}


ENDS = {
    "the reply was delivered": (Session.keep, {"a": [A]}),
    "the message is run once more": (lambda _claims: None, {"a": [A]}),
    "the reply cannot be delivered": (Session.release, {}),
}


@pytest.mark.parametrize(("end", "held"), ENDS.values(), ids=ENDS)
def test_the_outcome_of_the_reply_decides(end, held):
    world = World()
    world.use("a")
    end(world.claims)
    assert world.held == held
    assert len(world.claimer.doubts) == 0


def test_after_an_error_all_is_released_and_reserved_no_more():
    world = World()
    table = make_table([make_host("h1")])
    view = HostView.of(table, np.arange(1), pending=world.reservations)
    view.reservations.reserve(view.position(0), "a", {})
    with pytest.raises(ZeroDivisionError):
        world.use("a", "b", then=fail)
    assert world.held == {}
    assert len(world.reservations) == 0
    assert world.told.told[2:] == [("released", "a", A), ("released", "b", A)]


def test_after_the_deadline_nothing_is_claimed():
    world = World(deadline=-1.0)
    (result,) = world.use("a")
    assert result.outcome is Outcome.UNSENT
    assert world.api.calls == []


def test_an_evacuated_instance_keeps_its_source():
    world = World(ignored={B})
    world.api.consumers["a"] = holding(B)
    with pytest.raises(ZeroDivisionError):
        world.use("a", then=fail)
    assert world.held == {"a": [B]}


# -- a call with a past


def test_a_fence_that_fails_keeps_what_was_claimed():
    world = World(past=True)
    other = holding(B, generation=7)

    world.use("a", "b")
    world.api.consumers["b"] = other
    assert {one.outcome for one in world.claims.fence().values()} == {Outcome.CHANGED}
    assert world.held == {"a": [A], "b": [B]}


def test_what_a_fence_that_fails_leaves_is_released_once_nova_has_given_it_up():
    """Its host may have become unknown, so that the request ends without a host, and without these claims."""
    world = World(past=True)
    world.use("a", "b")
    world.api.consumers["b"] = holding(B, generation=7)
    assert {one.outcome for one in world.claims.fence().values()} == {Outcome.CHANGED}
    world.state = InstanceState.GIVEN_UP
    world.clock.now += LATE_WRITE_WINDOW
    world.loop.work()
    assert world.held == {}


def test_what_another_run_claimed_is_fenced_and_left_in_doubt():
    """Nobody knows whether that run was answered with it: it need not know that it is not the only one."""
    world = World(past=True)
    world.api.consumers["a"] = holding(A, generation=3)
    with world.claims:
        world.claims.adopt({"a": world.api.consumers["a"]})
        world.claim("b", B)
        world.claims.fence()
        assert world.api.consumers["a"].generation == 4
    world.claims.release()
    assert world.held == {"a": [A]}
    assert len(world.claimer.doubts) == 1


def test_several_writes_are_known():
    world = World()
    with world.claims:
        world.claims.claim({"a": candidate(A), "b": candidate(A)})
        assert not world.claims.took_several_writes
        world.claim("c", A)
        assert world.claims.took_several_writes


# -- what is left in doubt


def test_an_answer_after_a_lost_write_is_looked_at_later():
    world = World(["lost"])
    world.use("a")
    world.claims.keep()
    assert len(world.claimer.doubts) == 1
    assert world.held == {"a": [A]}


def test_an_answer_that_took_long_is_looked_at_later():
    world = World()
    world.use("a")
    world.clock.sleep(SOON + 1.0)
    world.claims.keep()
    assert len(world.claimer.doubts) == 1


@pytest.mark.parametrize("found", [False, True])
@pytest.mark.parametrize(("host", "shown"), [(A, True), (B, False)])
def test_what_a_late_reply_named_and_placement_hides_is_shown_on_its_host_alone(host, shown, found):
    """nova has the instance on host 1. It has its owner, also if another run of the call has claimed it."""
    world = World(state=InstanceState.PLACED)
    if found:
        world.api.consumers["a"] = holding(host)
        with world.claims:
            world.claims.adopt({"a": world.api.consumers["a"]})
        world.claims.close()
    else:
        world.use("a", where=host)
    world.clock.sleep(SOON + 1.0)
    world.claims.keep()
    world.api.hide("a")
    world.clock.now += LATE_WRITE_WINDOW
    world.loop.work()
    assert ("a" in world.api.hidden) is not shown
    owner = world.api.consumers["a"].owner
    assert (owner.project_id, owner.user_id) == ("project", "caller" if shown or not found else "user")


def test_a_claim_that_was_interrupted_is_looked_at_later():
    world = World()
    world.claimer.claim = lambda *_: fail()
    with pytest.raises(ZeroDivisionError):
        world.use("a")
    assert len(world.claimer.doubts) == 1


# -- requests and results


def test_the_claimer_is_told_owner_host_and_kept_nodes():
    asked = []
    world = World(ignored={B})
    world.claimer.claim = lambda _wanted, of, _deadline: asked.append(of) or {}
    with contextlib.suppress(KeyError):
        world.use("a")
    (of,) = asked
    assert (of.owner.project_id, of.owner.user_id) == ("project", "caller")
    assert (of.host_name(A), of.kept.providers) == ("host 1", {B})


def test_an_observer_learns_of_refusals_that_concern_one_host():
    world = World(room=0)
    world.use("a")
    assert world.told.told == [("refused", A, "VCPU")]


def test_the_events_of_all_claims_for_an_instance_are_kept():
    world = World(["concurrent"])
    world.use("a")
    assert [event.next_step for event in world.claims.events_of("a")][-1] is ClaimState.GRANTED
    assert len(world.claims.events_of("a")) == 2


class Full:
    """A check that finds these instances over the capacity, once each, at the second look."""

    looks_again = 1

    def __init__(self, *uuids):
        self.uuids, self.added = list(uuids), []

    def look(self, added, *, is_first):
        self.added.append(dict(added))
        over = {uuid: OVER for uuid in self.uuids if uuid in added}
        if len(self.added) > 1:
            self.uuids = [uuid for uuid in self.uuids if uuid not in over]
        return dict.fromkeys(added, WITHIN) | over


OVER = Finding(ClaimState.OVER_CAPACITY, "one too many", A, "VCPU")


def test_of_many_claims_only_those_too_many_are_released_and_refused():
    world = World()
    world.look(capacity=Full("b"))
    with world.claims:
        results = world.claims.claim({"a": candidate(A), "b": candidate(A)})
        assert [results[uuid].done for uuid in "ab"] == [True, False]
        assert results["b"].try_next
        assert world.held == {"a": [A]}
        assert world.claim("b", B).done
    states = [event.next_step for event in world.claims.events_of("b")]
    assert states == [
        ClaimState.GRANTED,
        ClaimState.OVER_CAPACITY,
        ClaimState.GRANTED,
        ClaimState.WITHIN_CAPACITY,
    ]


def test_only_what_a_claim_added_is_checked():
    world = World(ignored={B})
    world.api.consumers["a"] = holding(B)
    full = Full()
    world.look(capacity=full)
    world.use("a")
    assert full.added == [{"a": candidate(A).allocations}]


class Visited:
    """A check that finds a later member on the host, which stays by the order, at so many looks."""

    looks_again = 3

    def __init__(self, looks):
        self.looks = looks

    def look(self, added, *, is_first):
        self.looks -= 1
        crowded = Finding(ClaimState.AGAINST_POLICY, "two on host", gives_way=True)
        return {} if self.looks < 0 else dict.fromkeys(added, crowded)


@pytest.mark.parametrize(("looks", "holds"), [(0, True), (6, True), (7, False)])
def test_fenced_claims_wait_for_members_that_were_claimed_later_and_leave(looks, holds):
    """They were looked after when they were made. Else each such member would end the whole request."""
    world = World()
    world.use("a", "b")
    world.look(group=Visited(looks))
    with contextlib.nullcontext() if holds else pytest.raises(AgainstGroupPolicy):
        world.claims.fence()
    assert len(world.clock.slept) == min(looks, 6)


# -- checks of the chosen hosts


def test_a_host_that_does_not_pass_the_check_is_refused_and_nothing_is_sent():
    world = World()
    world.look(winners=lambda nodes: {A: "trait X is missing"})
    with world.claims:
        many = world.claims.claim({"b": candidate(A), "c": candidate(B)})
    assert (many["b"].outcome, many["b"].reason) == (Outcome.REFUSED, "trait X is missing")
    assert world.held == {"c": [B]}


def test_hosts_are_checked_together_and_each_once():
    asked = []
    world = World()
    world.look(winners=lambda nodes: asked.append(sorted(nodes)) or {})
    with world.claims:
        world.claims.claim({"a": candidate(A), "b": candidate(A), "c": candidate(B)})
    assert asked == [[A, B]]


@pytest.mark.parametrize("error", [PlacementUnreachable("down"), MirrorStale("9 hosts have changed")])
def test_without_a_result_of_the_check_no_other_host_is_tried(error):
    def check(nodes):
        raise error

    world = World()
    world.look(winners=check)
    (result,) = world.use("a")
    assert (result.outcome, result.reason, result.try_next) == (Outcome.UNSENT, str(error), False)
    assert world.api.calls == []
