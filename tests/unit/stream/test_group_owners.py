import pytest

from scheduler.stream.group_owners import GroupOwners
from scheduler.stream.membership import Member, Membership

OWN, OTHER = Member("m", topic="berth.m.0"), Member("a", topic="berth.a.0")
KEYS = [f"group-{number}" for number in range(200)]


class Call:
    """A call that is sent on wherever it is wanted."""

    def __init__(self):
        self.sent = []

    def forward(self, topic, reason):
        self.sent.append((topic, reason))


def make_owners(*others, own=OWN, **options):
    members = Membership(own)
    for other in others:
        members.update(other)
    return GroupOwners(members, **options), members


def test_a_call_is_sent_on_to_the_owner_of_its_group_and_stays_with_the_owner():
    owners, members = make_owners(OTHER)
    for key in KEYS:
        call = Call()
        owners.send_on(key, call)
        elsewhere = members.owner_of(key) == OTHER
        assert call.sent == ([("berth.a.0", "server_group")] if elsewhere else [])
    assert {members.owner_of(key) for key in KEYS} == {OWN, OTHER}


def sent(owners):
    """What is sent on of the calls for many groups."""
    calls = [Call() for _ in KEYS]
    for key, call in zip(KEYS, calls, strict=True):
        owners.send_on(key, call)
    return [each for call in calls for each in call.sent]


@pytest.mark.parametrize(
    ("others", "options"),
    [
        ([], {}),
        ([OTHER], {"enabled": lambda: False}),
        ([Member("a")], {"own": Member("m")}),
        ([Member("a", partition="p", topic="t")], {}),
    ],
    ids=["alone", "switched off", "nobody takes calls", "another partition"],
)
def test_a_call_is_decided_here(others, options):
    owners, _ = make_owners(*others, **options)
    assert sent(owners) == []
