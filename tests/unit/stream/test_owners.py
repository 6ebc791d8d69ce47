import pytest

from scheduler.stream.membership import Membership
from scheduler.stream.owners import Owners
from scheduler.stream.records import Member

GROUPS = [f"group-{number}" for number in range(300)]


def member(name, **fields):
    return Member(name, name, topic=f"berth.{name}.0", **fields)


def make_owners(own, *others, in_step=True):
    membership = Membership(own)
    for other in others:
        membership.update(other)
    return Owners(membership, lambda: in_step)


class Call:
    def __init__(self):
        self.sent = []

    def forward(self, topic, reason):
        self.sent.append((topic, reason))


def sent(found):
    """What is forwarded of the calls for many groups."""
    calls = [Call() for _ in GROUPS]
    for group, call in zip(GROUPS, calls, strict=True):
        found.forward_for_group(group, call)
    return [each for call in calls for each in call.sent]


def test_all_agree_on_the_owner_of_a_group_and_groups_are_spread():
    views = [make_owners(Member(own), *map(Member, "abc")) for own in "abc"]
    found = [[view.owner_of_group(group).sender for group in GROUPS] for view in views]
    assert found[0] == found[1] == found[2]
    assert all(60 < found[0].count(sender) < 140 for sender in "abc")


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([Member("a")], {"a", "m"}),
        ([Member("a"), member("b")], {"b"}),
    ],
    ids=["nobody takes calls", "one takes calls"],
)
def test_the_owner_of_a_group_is_one_that_takes_calls_if_any_does(others, expected):
    found = make_owners(Member("m"), *others)
    assert {found.owner_of_group(group).sender for group in GROUPS} == expected


def test_a_call_is_sent_on_to_the_owner_of_its_group_and_stays_with_the_owner():
    found = make_owners(member("m"), member("a"))
    for group in GROUPS:
        call = Call()
        found.forward_for_group(group, call)
        elsewhere = found.owner_of_group(group).sender == "a"
        assert call.sent == ([("berth.a.0", "server_group")] if elsewhere else [])


@pytest.mark.parametrize(
    ("others", "options"),
    [
        ([], {}),
        ([member("a")], {"in_step": False}),
        ([Member("a")], {}),
    ],
    ids=["alone", "not in step", "takes no calls"],
)
def test_a_call_is_decided_here(others, options):
    assert sent(make_owners(member("m"), *others, **options)) == []


def test_outside_of_a_server_nothing_is_sent_on():
    found = make_owners(member("m"), member("a"))
    for group in GROUPS:
        found.forward_for_group(group, None)
