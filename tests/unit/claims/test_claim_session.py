import contextlib
import time
from types import SimpleNamespace

import numpy as np
import pytest

from scheduler.claims.allocations_api import ConsumerAllocations, Owner
from scheduler.claims.claim_session import ClaimSession
from scheduler.claims.result import ClaimResult, Outcome
from scheduler.errors import NoValidHost
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.view import HostView
from tests.builders import make_host, make_table
from tests.unit.selection.requests import REFUSED, make_candidate, make_spec

CLAIMED = ClaimResult(Outcome.CLAIMED)


class Claimer:
    """Writes down what it is told."""

    def __init__(self, result=CLAIMED):
        self.result = result
        self.asked, self.released, self.settled = [], [], []

    def claim(self, uuid, candidate, *who):
        self.asked.append((uuid, *who))
        return self._answer()

    def claim_many(self, candidates, *who):
        self.asked.append((*candidates, *who))
        return dict.fromkeys(candidates, self._answer())

    def _answer(self):
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result

    def release(self, uuid, claim, context):
        self.released.append((uuid, claim))

    def answered(self, uuids):
        self.settled += uuids


def make(result=CLAIMED, deadline=float("inf"), **fields):
    claimer = Claimer(result)
    context = SimpleNamespace(user_id="caller")
    spec = make_spec(**{"project_id": "project", "user_id": "user", **fields})
    return claimer, ClaimSession(
        claimer, PendingPlacements(), context, spec, ["a", "b", "c"], {"ignored"}, deadline
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


def test_what_is_claimed_is_wanted_unless_something_fails():
    claimer, claims = make()
    with claims:
        assert claims.claim("a", CANDIDATE).claimed
        assert claims.claim_many({"b": CANDIDATE, "c": CANDIDATE})["c"].claimed
    assert claimer.released == []
    assert sorted(claimer.settled) == ["a", "b", "c"]


def test_what_was_claimed_before_an_error_is_given_back_once():
    claimer, claims = make()
    claims.claim_many({"b": CANDIDATE})
    with pytest.raises(ZeroDivisionError):
        use(claims, "a", then=fail)
    assert claimer.released == [("b", CLAIMED), ("a", CLAIMED)]
    assert sorted(claimer.settled) == ["a", "b"]


@pytest.mark.parametrize(("then", "left"), [(fail, 0), (lambda: None, 1)])
def test_what_was_reserved_before_an_error_is_given_back(then, left):
    _, claims = make()
    table = make_table([make_host("h1")])
    view = HostView.of(table, np.arange(1), pending=claims._pending)
    view.reserve(0, "a", {})
    with contextlib.suppress(ZeroDivisionError):
        use(claims, then=then)
    assert len(claims._pending) == left


def test_refused_claims_are_not_released():
    claimer, claims = make(REFUSED)
    with pytest.raises(ZeroDivisionError):
        use(claims, "a", then=fail)
    assert claimer.released == []
    assert claimer.settled == ["a"]


@pytest.mark.parametrize("several", [False, True])
def test_a_claim_of_which_nobody_knows_how_far_it_came_is_given_back(several):
    claimer, claims = make(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt), claims:
        claims.claim_many({"a": CANDIDATE}) if several else claims.claim("a", CANDIDATE)
    ((uuid, claim),) = claimer.released
    assert uuid == "a"
    assert claim.unsure
    assert claim.made == ConsumerAllocations(CANDIDATE.allocations, owner=Owner("project", "user"))


def test_nothing_is_claimed_for_a_caller_who_has_given_up():
    claimer, claims = make(deadline=time.monotonic() - 1)
    assert claims.claim("a", CANDIDATE).hopeless
    assert claims.claim_many({"b": CANDIDATE})["b"].hopeless
    with pytest.raises(NoValidHost, match="given up"):
        use(claims)
    assert claimer.asked == []


def test_claims_that_come_too_late_for_the_caller_are_given_back(caplog):
    claimer, claims = make(deadline=time.monotonic() + 60)
    with pytest.raises(NoValidHost):
        use(claims, "a", then=lambda: setattr(claims, "_deadline", time.monotonic() - 1))
    assert claimer.released == [("a", CLAIMED)]
    assert "too long" in caplog.text


def test_who_asks_and_what_may_be_kept():
    claimer, claims = make(user_id=None)
    claims.claim("a", CANDIDATE)
    claims.claim_many({"b": CANDIDATE})
    context = claims._context
    assert claimer.asked == [
        ("a", "project", "caller", context, {"ignored"}),
        ("b", "project", "caller", context),
    ]
