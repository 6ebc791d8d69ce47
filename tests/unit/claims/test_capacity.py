"""Claims that leave a host little room are looked at once more, and what is over its capacity is given back."""

import pytest

from scheduler.bounds import deadline
from scheduler.bounds.deadline import Deadline
from scheduler.claims.capacity import CheckedClaims, Excess, OvercommitCheck
from scheduler.placement.answer import Usage
from scheduler.placement.write_policy import WritePolicy
from tests.support.clock import Clock
from tests.unit.claims.builders import SleepClock

POLICY = WritePolicy(retry_delay=(0.25, 0.5))


def taking(amount=1, provider="p", name="VCPU"):
    return {provider: {"resources": {name: amount}}}


class Placement:
    """Answers with each usage once, then with the last one."""

    def __init__(self, *used, capacity=10, name="VCPU"):
        self.answers = [{name: Usage(capacity, each)} if each is not None else {} for each in used]
        self.read = []

    def __call__(self, provider):
        self.read.append(provider)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def check(placement, added, left=0, others=2, clock=None):
    room = left if callable(left) else lambda _provider: {"VCPU": left, "DISK_GB": left}
    return OvercommitCheck(room, placement, others, POLICY, (clock or SleepClock()).timing).check(added)


@pytest.mark.parametrize(
    ("others", "left", "amount", "is_read"),
    [
        (0, 0, 4, False),
        (2, 8, 4, False),
        (2, 7, 4, True),
        (2, -1, 4, True),
    ],
    ids=["switched off", "just enough room", "a little less", "no room"],
)
def test_a_claim_is_checked_if_others_of_its_size_would_not_fit(others, left, amount, is_read):
    placement = Placement(1)
    check(placement, {"i": taking(amount)}, left, others)
    assert placement.read == ["p"] * is_read


def test_a_provider_of_which_nothing_is_known_is_checked():
    placement = Placement(1)
    assert check(placement, {"i": taking(1)}, lambda _: {}) == CheckedClaims(frozenset("i"), {})
    assert placement.read == ["p"]


def test_after_the_deadline_of_the_request_no_further_provider_is_read():
    clock, read = Clock(), []

    def placement(provider):
        read.append(provider)
        clock.now += 4
        return {"VCPU": Usage(10, 11)}

    added = {f"i{number}": taking(provider=f"p{number}") for number in range(9)}
    with deadline.limit_to(Deadline.after(10, clock)):
        assert check(placement, added) == CheckedClaims(frozenset({"i0", "i1", "i2"}))
    assert read == ["p0", "p1", "p2"]


def test_a_claim_within_the_capacity_stays_and_is_not_waited_for():
    clock = SleepClock()
    assert check(Placement(10), {"i": taking()}, clock=clock).within == {"i"}
    assert clock.slept == []


def test_a_claim_over_the_capacity_is_given_back_after_a_delay_if_nobody_else_has():
    clock = SleepClock()
    placement = Placement(11, 11)
    assert check(placement, {"i": taking()}, clock=clock) == CheckedClaims(
        frozenset(), {"i": Excess("p", "VCPU")}
    )
    assert clock.slept == [0.25]


def test_a_claim_stays_if_another_scheduler_has_given_back_meanwhile():
    assert check(Placement(11, 10), {"i": taking()}) == CheckedClaims(frozenset("i"), {})


def test_of_several_claims_only_as_many_are_given_back_as_are_too_many_the_last_first():
    added = {"a": taking(2), "b": taking(2), "c": taking(2), "d": taking(2, "q")}
    checked = check(Placement(13), {**added, "d": taking(2, "q")}, lambda p: {"VCPU": 0 if p == "p" else 99})
    assert checked.over == {"c": Excess("p", "VCPU"), "b": Excess("p", "VCPU")}
    assert checked.within == {"a"}


def test_what_is_given_back_for_one_class_counts_for_the_others():
    added = {uuid: {"p": {"resources": {"VCPU": 1, "DISK_GB": 5}}} for uuid in "ab"}
    usage = {"VCPU": Usage(10, 11), "DISK_GB": Usage(100, 105)}
    assert check(lambda _: usage, added).over == {"b": Excess("p", "VCPU")}


def test_a_class_that_the_claims_do_not_take_is_not_theirs_to_release():
    usage = {"VCPU": Usage(10, 10), "DISK_GB": Usage(100, 105)}
    assert check(lambda _: usage, {"a": taking()}).over == {}


def test_what_placement_does_not_tell_stays():
    assert check(Placement(None), {"i": taking()}) == CheckedClaims()
    assert check(Placement(11, None), {"i": taking()}).over == {}
