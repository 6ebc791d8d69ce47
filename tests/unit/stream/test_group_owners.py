import pytest

from scheduler.stream.group_owners import GroupOwners
from scheduler.stream.membership import Member, Membership

OWN, OTHER = Member("m", topic="berth.m.0"), Member("a", topic="berth.a.0")
KEYS = [f"group-{number}" for number in range(200)]


class Call:
    """A call that is sent on wherever it is wanted."""

    def __init__(self, tried=()):
        self.tried, self.sent = tried, []

    def forward(self, topic, reason, tried):
        self.sent.append((topic, reason, tried))


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
        assert call.sent == ([("berth.a.0", "server_group", ("server_group",))] if elsewhere else [])
    assert {members.owner_of(key) for key in KEYS} == {OWN, OTHER}


def sent(owners, tried=()):
    """What is sent on of the calls for many groups."""
    calls = [Call(tried) for _ in KEYS]
    for key, call in zip(KEYS, calls, strict=True):
        owners.send_on(key, call)
    return [each for call in calls for each in call.sent]


@pytest.mark.parametrize(
    ("others", "options", "tried"),
    [
        ([], {}, ()),
        ([OTHER], {"enabled": lambda: False}, ()),
        ([OTHER], {}, ("server_group",)),
        ([Member("a")], {"own": Member("m")}, ()),
        ([Member("a", partition="p", topic="t")], {}, ()),
    ],
    ids=["alone", "switched off", "was sent on before", "nobody takes calls", "another partition"],
)
def test_a_call_is_decided_here(others, options, tried):
    owners, _ = make_owners(*others, **options)
    assert sent(owners, tried) == []


def test_a_call_is_sent_on_once_in_each_partition():
    own = Member("m", partition="p", topic="berth.m.0")
    owners, _ = make_owners(Member("a", partition="p", topic="t"), own=own)
    assert ("t", "server_group", ("server_group", "server_group:p")) in sent(owners, ("server_group",))
    assert sent(owners, ("server_group:p",)) == []
