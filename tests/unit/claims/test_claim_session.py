import contextlib
from dataclasses import replace
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from scheduler.placement.allocations import NOTHING, ConsumerAllocations, Owner
from scheduler.claims.capacity import CheckedClaims, Excess
from scheduler.claims.claim import ClaimRequest
from scheduler.claims.claim_session import ClaimSession, ComputeNodes
from scheduler.placement.claim_events import ClaimEvent, ClaimState
from scheduler.claims.observers import NoObserver
from scheduler.claims.result import ClaimResult, Outcome, OwnWrite
from scheduler.errors import NoValidHost
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.view import HostView
from scheduler.placement.errors import MirrorStale, PlacementUnreachable
from scheduler.rpc.delivery import Delivery, Receipt
from tests.builders import make_host, make_table
from tests.support.clock import Clock
from tests.unit.selection.requests import REFUSED, make_candidate, make_request, make_spec

CLAIMED = ClaimResult(Outcome.CLAIMED)


class Claimer:
    """Writes down what it is told."""

    def __init__(self, result=CLAIMED):
        self.result = result
        self.asked, self.released, self.confirmed = [], [], []
        self.watched = None
        self.begun, self.busy, self.finished = 0, False, threading.Event()

    def claim(self, request):
        self.asked.append(request)
        return self._answer()

    def claim_many(self, requests):
        self.asked += requests
        return dict.fromkeys([request.uuid for request in requests], self._answer())

    def confirm_many(self, claims):
        self.asked += claims
        return dict.fromkeys([one.uuid for one in claims], self._answer())

    def _answer(self):
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result

    def begin_request(self, uuids, deadline):
        self.begun += 1
        return None if self.busy else self.finished.set

    def release_many(self, claims, context=None):
        self.released += claims.items()

    def confirm_claims(self, uuids):
        self.confirmed += uuids

    def watch_late_writes(self, claims, context=None):
        self.watched = claims


TOLD = {"message_id": "message", "redelivered": True, "alone": False}


def make(result=CLAIMED, deadline=float("inf"), clock=None, may_be_answered=False, **fields):
    delivery = Delivery(Receipt("message", redelivered=True, may_be_answered=may_be_answered))
    context = SimpleNamespace(user_id="caller", delivery=delivery)
    claimer = Claimer(result)
    spec = make_spec(**{"project_id": "project", "user_id": "user", **fields})
    return claimer, ClaimSession(
        claimer,
        PendingPlacements(),
        make_request(spec, ["a", "b", "c"], context=context, deadline=deadline),
        ComputeNodes({"ignored"}, host_name={"p": "host 1"}.get),
        clock=clock or Clock(),
    )


CANDIDATE = make_candidate("p")


def use(claims, *uuids, then=lambda: None):
    """Claim for each, and do something before the end."""
    with claims:
        results = [claims.claim(uuid, CANDIDATE) for uuid in uuids]
        then()
    return results


def fail():
    raise ZeroDivisionError


def test_claims_of_a_request_that_succeeds_are_kept_and_confirmed_when_its_reply_was_delivered():
    claimer, claims = make()
    with claims:
        assert claims.claim("a", CANDIDATE).claimed
        assert claims.claim_many({"b": CANDIDATE, "c": CANDIDATE})["c"].claimed
    assert claimer.released == []
    assert claimer.confirmed == []
    claims.confirm()
    assert claimer.released == []
    assert sorted(claimer.confirmed) == ["a", "b", "c"]


def test_only_claims_that_were_answered_after_a_lost_write_are_watched():
    lost = replace(CLAIMED, lost=(OwnWrite(NOTHING),))
    for result, ending, watched in (
        (lost, ClaimSession.confirm, {"a": lost}),
        (CLAIMED, ClaimSession.confirm, None),
        (lost, ClaimSession.give_back, None),
    ):
        claimer, claims = make(result)
        use(claims, "a")
        ending(claims)
        assert claimer.watched == watched


def test_claims_of_a_request_that_succeeds_are_given_back_when_its_reply_cannot_be_delivered():
    claimer, claims = make()
    table = make_table([make_host("h1")])
    HostView.of(table, np.arange(1), pending=claims.reservations).reserve(0, "a", {})
    use(claims, "a")
    assert len(claims.reservations) == 1
    claims.give_back()
    assert claimer.released == [("a", CLAIMED)]
    assert claimer.confirmed == ["a"]
    assert len(claims.reservations) == 0


def test_after_an_error_each_claim_is_given_back_once():
    claimer, claims = make()
    claims.claim_many({"b": CANDIDATE})
    with pytest.raises(ZeroDivisionError):
        use(claims, "a", then=fail)
    assert claimer.released == [("b", CLAIMED), ("a", CLAIMED)]
    assert sorted(claimer.confirmed) == ["a", "b"]


@pytest.mark.parametrize(("then", "left"), [(fail, 0), (lambda: None, 1)])
def test_after_an_error_reservations_are_given_back(then, left):
    _, claims = make()
    table = make_table([make_host("h1")])
    view = HostView.of(table, np.arange(1), pending=claims.reservations)
    view.reserve(0, "a", {})
    with contextlib.suppress(ZeroDivisionError):
        use(claims, then=then)
    assert len(claims.reservations) == left


def test_refused_claims_are_not_released():
    claimer, claims = make(REFUSED)
    with pytest.raises(ZeroDivisionError):
        use(claims, "a", then=fail)
    assert claimer.released == []
    assert claimer.confirmed == ["a"]


@pytest.mark.parametrize("several", [False, True])
def test_a_claim_that_was_interrupted_is_given_back(several):
    claimer, claims = make(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt), claims:
        claims.claim_many({"a": CANDIDATE}) if several else claims.claim("a", CANDIDATE)
    ((uuid, claim),) = claimer.released
    assert uuid == "a"
    assert claim.unsure
    assert claim.made == ConsumerAllocations(CANDIDATE.allocations, 1, Owner("project", "user"))


def test_after_the_deadline_nothing_is_claimed():
    claimer, claims = make(deadline=999.0, clock=Clock(1000.0))
    assert claims.claim("a", CANDIDATE).hopeless
    assert claims.claim_many({"b": CANDIDATE})["b"].hopeless
    with pytest.raises(NoValidHost, match="given up"):
        use(claims)
    assert claimer.asked == []


def test_claims_of_a_request_that_ends_after_its_deadline_are_given_back(caplog):
    clock = Clock(1000.0)
    claimer, claims = make(deadline=1060.0, clock=clock)
    with pytest.raises(NoValidHost):
        use(claims, "a", then=lambda: setattr(clock, "now", 1061.0))
    assert claimer.released == [("a", CLAIMED)]
    assert "too long" in caplog.text


def test_the_claimer_is_told_owner_context_ignored_nodes_host_and_message():
    claimer, claims = make(user_id=None)
    claims.claim("a", CANDIDATE)
    claims.claim_many({"b": CANDIDATE})
    owner = Owner("project", "caller")
    assert claimer.asked == [
        ClaimRequest("a", CANDIDATE, owner, claims.request.context, {"ignored"}, "host 1", **TOLD),
        ClaimRequest("b", CANDIDATE, owner, claims.request.context, (), "host 1", **TOLD),
    ]


def test_the_events_of_all_claims_for_an_instance_are_kept():
    refused = ClaimEvent(1, "host 1", 409, "no room", ClaimState.NEXT_HOST)
    granted = ClaimEvent(1, "host 2", 204, "accepted", ClaimState.GRANTED)
    claimer, claims = make(replace(REFUSED, events=(refused,)))
    claims.claim("a", CANDIDATE)
    claimer.result = replace(CLAIMED, events=(granted,))
    claims.claim_many({"a": CANDIDATE})
    assert list(claims.events_of("a")) == [refused, granted]
    assert list(claims.events_of("b")) == []


def test_a_claim_that_comes_too_late_leaves_an_event():
    _, claims = make(deadline=999.0, clock=Clock(1000.0))
    claims.claim("a", CANDIDATE)
    (event,) = claims.events_of("a")
    assert (event.attempt, event.host, event.next_step) == (0, "host 1", ClaimState.GIVEN_UP)


class Observer:
    def __init__(self):
        self.seen = []

    def claimed(self, instance_uuid, allocations):
        self.seen.append(("claimed", instance_uuid, allocations))

    def released(self, instance_uuid, allocations):
        self.seen.append(("released", instance_uuid, allocations))

    def refused(self, result, candidate):
        self.seen.append(("refused", result.refused_class, candidate))


def test_an_observer_learns_of_claims_and_of_their_release():
    made = ConsumerAllocations(CANDIDATE.allocations)
    _, claims = make(replace(CLAIMED, made=made))
    claims.observer = Observer()
    with contextlib.suppress(ZeroDivisionError):
        use(claims, "a", then=fail)
    assert claims.observer.seen == [
        ("claimed", "a", CANDIDATE.allocations),
        ("released", "a", CANDIDATE.allocations),
    ]


def test_an_observer_learns_of_refusals_that_concern_one_host():
    _, claims = make(REFUSED)
    claims.observer = Observer()
    use(claims, "a")
    assert claims.observer.seen == [("refused", "VCPU", CANDIDATE)]


def test_an_observer_learns_nothing_of_claims_that_no_host_can_have():
    _, claims = make(ClaimResult(Outcome.UNAVAILABLE, "away"))
    claims.observer = Observer()
    use(claims, "a")
    assert claims.observer.seen == []


def test_while_another_request_for_an_instance_is_served_claims_are_refused():
    claimer, claims = make()
    claimer.busy = True
    with claims:
        assert claims.claim("a", CANDIDATE).outcome is Outcome.CONFLICT
        assert claims.claim_many({"b": CANDIDATE})["b"].outcome is Outcome.CONFLICT
    assert claimer.asked == []


@pytest.mark.parametrize("result", [CLAIMED, ZeroDivisionError()], ids=["granted", "error"])
def test_the_time_of_all_claims_is_added_up(result):
    clock = Clock()
    claimer, claims = make(result, clock=clock)
    answer = claimer._answer

    def slow():
        clock.now += 2
        return answer()

    claimer._answer = slow
    with contextlib.suppress(ZeroDivisionError), claims:
        for _ in range(3):
            with contextlib.suppress(ZeroDivisionError):
                claims.claim("a", CANDIDATE)
                claims.claim_many({"b": CANDIDATE})
    assert claims.seconds == (12 if result is CLAIMED else 6)


class Full:
    """A check that finds these instances over the capacity, once each."""

    def __init__(self, *uuids):
        self.uuids, self.added = list(uuids), []

    def check(self, added):
        self.added.append(dict(added))
        over = {uuid: Excess("p", "VCPU") for uuid in self.uuids if uuid in added}
        self.uuids = [uuid for uuid in self.uuids if uuid not in over]
        return CheckedClaims(frozenset(added) - over.keys(), over)


def granted(**fields):
    events = (ClaimEvent(1, "host 1", 204, "accepted", ClaimState.GRANTED),)
    made = ConsumerAllocations(CANDIDATE.allocations, 1, Owner("project", "user"))
    return ClaimResult(Outcome.CLAIMED, made=made, events=events, **fields)


class Told(NoObserver):
    """Writes down what it is told."""

    def __init__(self):
        self.told = []

    def claimed(self, uuid, allocations):
        self.told.append(("claimed", uuid))

    def released(self, uuid, allocations):
        self.told.append(("released", uuid))

    def refused(self, result, candidate):
        self.told.append(("refused", result.refused_provider, result.refused_class))


def test_a_claim_that_is_one_too_many_is_given_back_and_refused():
    claimer, claims = make(granted())
    claims.capacity, claims.observer = Full("a"), Told()
    with claims:
        result = claims.claim("a", CANDIDATE)
        assert (result.outcome, result.try_next) == (Outcome.REFUSED, True)
        assert (result.refused_provider, result.refused_class) == ("p", "VCPU")
        assert [uuid for uuid, _ in claimer.released] == ["a"]
        assert claims.claim("a", CANDIDATE).claimed
    assert len(claimer.released) == 1
    assert claims.observer.told == [
        ("claimed", "a"),
        ("refused", "p", "VCPU"),
        ("released", "a"),
        ("claimed", "a"),
    ]
    states = [event.next_step for event in claims.events_of("a")]
    assert states == [
        ClaimState.GRANTED,
        ClaimState.OVER_CAPACITY,
        ClaimState.GRANTED,
        ClaimState.WITHIN_CAPACITY,
    ]


def test_of_many_claims_only_those_too_many_are_given_back():
    claimer, claims = make(granted())
    claims.capacity = Full("b")
    with claims:
        results = claims.claim_many({"a": CANDIDATE, "b": CANDIDATE})
    assert [results[uuid].claimed for uuid in "ab"] == [True, False]
    assert [uuid for uuid, _ in claimer.released] == ["b"]
    claims.give_back()
    assert [uuid for uuid, _ in claimer.released] == ["b", "a"]


def test_only_what_a_claim_added_is_checked():
    kept = ConsumerAllocations({"p": {}}, 1)
    both = ConsumerAllocations({"p": {}, "q": {"resources": {"VCPU": 1}}}, 2)
    for result, added in (
        (granted(previous=kept), {}),
        (replace(granted(), previous=kept, made=both), {"a": {"q": {"resources": {"VCPU": 1}}}}),
        (granted(adopted=True), {}),
        (REFUSED, {}),
    ):
        _, claims = make(result)
        claims.capacity = Full()
        use(claims, "a")
        assert claims.capacity.added == [added]


def test_claims_that_a_caller_may_know_are_not_checked():
    claimer, claims = make(granted(), may_be_answered=True)
    claims.capacity = Full("a")
    use(claims, "a")
    confirm(claims)
    assert (claimer.released, claims.capacity.added) == ([], [])


HELD = ConsumerAllocations({"p": {"resources": {"VCPU": 1}}}, 3)


def confirm(claims):
    with claims:
        return claims.confirm_held({"a": HELD, "b": HELD}, {"a": CANDIDATE, "b": CANDIDATE})


def test_what_is_confirmed_is_given_back_or_kept_like_what_is_claimed():
    claimer, claims = make(granted())
    assert confirm(claims)["b"].claimed
    assert [(one.uuid, one.held, one.request.message_id) for one in claimer.asked] == [
        ("a", HELD, "message"),
        ("b", HELD, "message"),
    ]
    claims.give_back()
    assert claimer.released == [("a", granted()), ("b", granted())]
    claimer, claims = make(granted())
    confirm(claims)
    claims.confirm()
    assert (claimer.released, sorted(claimer.confirmed)) == ([], ["a", "b"])


def test_nothing_is_confirmed_too_late_or_beside_another_request():
    for changes, outcome in (({"deadline": -1.0}, Outcome.UNAVAILABLE), ({}, Outcome.CONFLICT)):
        claimer, claims = make(**changes)
        claimer.busy = not changes
        with contextlib.suppress(NoValidHost):
            assert {one.outcome for one in confirm(claims).values()} == {outcome}
        claims.give_back()
        assert claimer.asked == []
        assert claimer.confirmed == [], "what is recorded is the other request's"


def test_adopted_claims_are_not_told_as_released():
    told = []
    _, claims = make(granted(adopted=True))
    claims.observer = SimpleNamespace(
        claimed=lambda uuid, _: told.append(("claimed", uuid)), released=lambda uuid, _: told.append(uuid)
    )
    confirm(claims)
    claims.give_back()
    assert told == [("claimed", "a"), ("claimed", "b")]


# -- checks of the chosen hosts ------------------------------------------------------------------------------


def test_a_host_that_does_not_pass_the_check_is_refused_and_nothing_is_sent():
    claimer, claims = make()
    claims.check = lambda nodes: {"p": "trait X is missing"}
    with claims:
        result = claims.claim("a", CANDIDATE)
        many = claims.claim_many({"b": CANDIDATE, "c": make_candidate("q")})
    assert (result.outcome, result.reason, result.try_next) == (Outcome.REFUSED, "trait X is missing", True)
    assert (many["b"].outcome, many["c"].claimed) == (Outcome.REFUSED, True)
    assert [request.uuid for request in claimer.asked] == ["c"]
    assert [event.cause for event in claims.events_of("a")] == ["trait X is missing"]


def test_hosts_are_checked_together_and_each_once():
    asked = []
    _, claims = make()
    claims.check = lambda nodes: asked.append(sorted(nodes)) or {}
    with claims:
        claims.claim_many({"a": CANDIDATE, "b": CANDIDATE, "c": make_candidate("q")})
    assert asked == [["p", "q"]]


@pytest.mark.parametrize("error", [PlacementUnreachable("down"), MirrorStale("9 hosts have changed")])
def test_without_a_result_of_the_check_no_other_host_is_tried(error):
    def check(nodes):
        raise error

    claimer, claims = make()
    claims.check = check
    with claims:
        result = claims.claim("a", CANDIDATE)
    assert (result.outcome, result.reason) == (Outcome.UNAVAILABLE, str(error))
    assert (result.try_next, claimer.asked) == (False, [])
