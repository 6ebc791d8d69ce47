import pytest

from scheduler.stream.flavor_owners import (
    AVOIDED_FOR,
    CALLS_A_SECOND,
    CALLS_AT_ONCE,
    FlavorOwners,
)
from scheduler.stream.membership import LATELY, Member, Membership
from tests.support.clock import Clock

OWN, OTHER = Member("m", topic="berth.m.0"), Member("a", topic="berth.a.0")
FLAVORS = [f"flavor-{number}" for number in range(200)]


class Call:
    """A call that is sent on wherever it is wanted."""

    def __init__(self, tried=(), redelivered=False):
        self.tried, self.redelivered, self.sent = tried, redelivered, []

    def forward(self, topic, reason, tried):
        self.sent.append((topic, reason, tried))


@pytest.fixture
def clock():
    return Clock(100.0)


@pytest.fixture
def make(clock):
    def make(*others, own=OWN, **options):
        members = Membership(own, clock)
        for other in others:
            members.update(other)
        return FlavorOwners(members, clock=clock, **options), members

    return make


def send(owners, flavor, **options):
    """Where a call for a flavor is sent on to, and what is noted on it."""
    call = Call(**options)
    owners.send_on(flavor, call)
    return call.sent


def flavor_of(members, owner):
    return next(flavor for flavor in FLAVORS if members.owner_of(flavor) == owner)


def test_a_call_is_sent_on_to_the_owner_of_its_flavor_and_stays_with_the_owner(make):
    owners, members = make(OTHER)
    to_other = ("berth.a.0", "flavor", ("flavor: berth.a.0",))
    assert send(owners, flavor_of(members, OTHER)) == [to_other]
    assert send(owners, flavor_of(members, OWN)) == []


def test_what_was_tried_before_stays_noted(make):
    owners, members = make(OTHER)
    ((_, _, tried),) = send(owners, flavor_of(members, OTHER), tried=("server_group",))
    assert tried == ("server_group", "flavor: berth.a.0")


@pytest.mark.parametrize(
    ("others", "options", "call"),
    [
        ([], {}, {}),
        ([OTHER], {"enabled": lambda: False}, {}),
        ([OTHER], {}, {"redelivered": True}),
        ([OTHER], {}, {"tried": ("flavor: berth.m.0",)}),
        ([Member("a")], {"own": Member("m")}, {}),
        ([Member("a", partition="p", topic="t")], {}, {}),
    ],
    ids=["alone", "switched off", "redelivered", "was sent here", "nobody takes calls", "another partition"],
)
def test_a_call_is_decided_here(make, clock, others, options, call):
    owners, _ = make(*others, **options)
    for flavor in FLAVORS:
        assert send(owners, flavor, **call) == []


def test_a_call_is_sent_on_once_in_each_partition(make):
    own, other = Member("m", partition="p", topic="berth.m.0"), Member("a", partition="p", topic="t")
    owners, members = make(other, own=own)
    flavor = flavor_of(members, other)
    assert send(owners, flavor, tried=("flavor: berth.b.0",)) == [
        ("t", "flavor", ("flavor: berth.b.0", "flavor:p t"))
    ]
    assert send(owners, flavor, tried=("flavor:p berth.m.0",)) == []


@pytest.mark.parametrize(
    ("topic", "redelivered"), [("berth.a.0", True), ("berth.a.0", False)], ids=["by the broker", "by itself"]
)
def test_an_owner_that_a_call_came_back_from_is_sent_none_for_a_while(make, clock, topic, redelivered):
    owners, members = make(OTHER)
    flavor = flavor_of(members, OTHER)
    assert send(owners, flavor, tried=(f"flavor: {topic}",), redelivered=redelivered) == []
    clock.now += AVOIDED_FOR - 1
    members.update(OTHER)
    assert send(owners, flavor) == []
    clock.now += 2
    assert send(owners, flavor) != []


def test_an_owner_that_was_not_heard_of_lately_is_sent_none_while_it_counts_as_alive(make, clock):
    owners, members = make(OTHER)
    flavor = flavor_of(members, OTHER)
    clock.now += LATELY + 0.1
    assert OTHER in members.alive()
    assert send(owners, flavor) == []
    members.hear(OTHER.sender)
    assert send(owners, flavor) != []


def test_another_owner_is_sent_calls_meanwhile(make):
    third = Member("z", topic="berth.z.0")
    owners, members = make(OTHER, third)
    send(owners, flavor_of(members, OTHER), tried=("flavor: berth.a.0",))
    assert [topic for topic, *_ in send(owners, flavor_of(members, third))] == ["berth.z.0"]


@pytest.mark.parametrize("schedulers", [2, 3, 9, 100])
def test_all_others_together_send_an_owner_no_more_than_it_can_decide(make, clock, schedulers):
    more = [Member(f"b{number}", topic=f"berth.b{number}.0") for number in range(schedulers - 2)]
    owners, members = make(OTHER, *more)
    flavor, senders = flavor_of(members, OTHER), schedulers - 1
    at_once = sum(bool(send(owners, flavor)) for _ in range(100))
    assert at_once == max(1, CALLS_AT_ONCE // senders)
    sent = 0
    for number in range(6400):
        clock.now += 1 / 32
        if number % 100 == 0:
            for other in (OTHER, *more):
                members.hear(other.sender)
        sent += bool(send(owners, flavor))
    assert sent / 200 == pytest.approx(CALLS_A_SECOND / senders, rel=0.1)


def test_one_owner_that_has_enough_keeps_none_from_another(make):
    third = Member("z", topic="berth.z.0")
    owners, members = make(OTHER, third)
    for _ in range(100):
        send(owners, flavor_of(members, OTHER))
    assert send(owners, flavor_of(members, third)) != []


@pytest.mark.parametrize(
    ("tried", "redelivered", "expected"),
    [
        (("server_group", "flavor: berth.m.0"), False, True),
        (("flavor: berth.m.0",), True, False),
        (("flavor: berth.a.0",), False, False),
        (("flavor:p berth.m.0",), False, False),
        ((), False, False),
    ],
    ids=["straight", "it comes again", "to another one", "in another partition", "never sent on"],
)
def test_a_call_was_sent_here_if_it_came_straight_from_its_sender(make, tried, redelivered, expected):
    owners, _ = make(OTHER)
    assert owners.was_sent_here(Call(tried, redelivered)) is expected
