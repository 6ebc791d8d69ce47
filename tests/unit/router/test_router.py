import logging

import pytest

from scheduler.conf.partitions import ROUTER, Partition
from scheduler.errors import NoValidHost, PartitionUnreachable
from scheduler.router import path
from scheduler.router.router import Router
from scheduler.router.routing import RoutingFacts
from scheduler.rpc.forwarding import WAIT_LIMIT
from scheduler.stream.membership import BEAT_INTERVAL, LATELY, Member


class Forwarded(BaseException):
    """As the one of rpc.delivery."""


class Postponed(BaseException):
    """As the one of rpc.delivery."""


class FakeCall:
    """Is sent on, unless the topic is out of reach, or it is not known what became of it."""

    def __init__(self, tried=(), unreachable=(), unknown=(), can_be_postponed=True):
        self.tried = tuple(tried)
        self.can_be_postponed = can_be_postponed
        self.unreachable = unreachable
        self.unknown = unknown
        self.sent = []

    def forward(self, topic, reason, tried):
        self.sent.append((topic, tried))
        if topic not in {*self.unknown, *self.unreachable}:
            raise Forwarded(topic)
        return topic in self.unknown

    def postpone(self, reason):
        if self.can_be_postponed:
            raise Postponed(reason)


class FakePlaces:
    def __init__(self, **hosts):
        self.hosts = hosts

    def has_host(self, partition, host):
        return host in self.hosts.get(partition, ())

    def has_cell(self, partition, cell_uuid):
        return None


PARTITIONS = [
    Partition("a", "topic.a", aggregates=("a",)),
    Partition("b", "topic.b", aggregates=("b",)),
    Partition("c", "topic.c", aggregates=("c",)),
]


def member(partition, free_mb=500, topic="t", cells=()):
    return Member(
        f"s-{partition}",
        "ctl",
        topic=topic,
        partition=partition,
        free_mb=free_mb,
        total_mb=1000,
        cells=tuple(cells),
    )


ALL = [member("a", 900), member("b", 600), member("c", 300)]


def make_router(own="a", members=ALL, places=None, lately=()):
    mine = Member("own", "ctl1", partition=own)
    members_lately = [mine, *(member for member in members if member.partition in lately)]
    return Router(PARTITIONS, mine, places or FakePlaces(), lambda: [mine, *members], lambda: members_lately)


def route(router, call, facts=RoutingFacts(memory_mb=1)):  # noqa: B008 - it is frozen
    """The partition that a call is sent to; None if it is served here."""
    try:
        router.route(facts, call)
    except Forwarded as sent:
        return str(sent)
    return None


def pass_on(router, call, facts=RoutingFacts(memory_mb=1)):  # noqa: B008 - it is frozen
    """The partition that a call is passed on to, None if it is refused; and what was noted."""
    noted = []
    try:
        router.pass_on(facts, call, "no host", noted.append)
    except Forwarded as sent:
        return str(sent), noted[-1]
    return None, noted[-1]


def test_a_call_that_belongs_here_is_served_here():
    assert route(make_router("a"), FakeCall()) is None


def test_a_call_that_belongs_elsewhere_is_sent_there(caplog):
    call = FakeCall()
    with caplog.at_level(logging.INFO):
        assert route(make_router("b"), call) == "topic.a"
    assert call.sent == [("topic.a", ("partition:a",))]
    assert "goes to partition a: 90% of its memory is free" in caplog.text


def test_a_call_that_was_sent_here_is_not_sent_on_before_it_was_tried():
    assert route(make_router("c"), FakeCall(path.sent((), "c"))) is None


def test_a_router_sends_all_on_while_a_partition_is_heard_of():
    assert route(make_router(ROUTER), FakeCall()) == "topic.a"
    assert route(make_router(ROUTER, [member("c")]), FakeCall()) == "topic.c"
    assert route(make_router(ROUTER, []), FakeCall()) is None


def test_a_partition_that_takes_no_calls_is_skipped():
    members = [member("a", 900, topic=""), member("b", 100), member("c", 50)]
    assert route(make_router("c", members), FakeCall()) == "topic.b"


def test_a_partition_that_did_not_take_a_call_in_time_is_passed_by():
    call = FakeCall(path.sent((), "a"))
    assert route(make_router("c"), call) == "topic.b"
    assert call.sent == [("topic.b", ("partition:a", "partition:b"))]


def test_a_call_that_came_back_from_a_partition_that_is_alive_is_sent_there_again_before_others():
    """One of its schedulers was killed or stopped; another one takes the call."""
    router, entries = make_router("c", lately=("a", "b")), path.sent((), "b")
    for _ in range(2):
        call = FakeCall(entries)
        assert route(router, call) == "topic.b", "the other one has more room"
        _, entries = call.sent[-1]
    assert route(router, FakeCall(entries)) == "topic.a", "nobody takes it there"


def test_a_call_that_came_back_from_the_own_partition_is_served_here():
    entries = path.sent(path.sent((), "c"), "b")
    assert route(make_router("c", lately=()), FakeCall(entries)) is None


def test_a_partition_that_answered_is_not_asked_again_although_it_is_alive():
    entries = path.answered(path.sent((), "b"), "b", "no")
    assert route(make_router("c", lately=("a", "b")), FakeCall(entries)) == "topic.a"


def test_a_call_that_came_back_goes_to_others_if_its_partition_cannot_be_reached():
    call = FakeCall(path.sent((), "b"), unreachable={"topic.b"})
    assert route(make_router("c", lately=("b",)), call) == "topic.a"


def test_a_call_that_was_lost_within_a_partition_is_sent_there_again():
    assert route(make_router("c"), FakeCall((*path.sent((), "a"), "server_group:a"))) == "topic.a"


def test_if_one_cannot_be_reached_the_next_is_tried():
    call = FakeCall(unreachable={"topic.a"})
    assert route(make_router("c"), call) == "topic.b"
    assert call.sent[-1] == ("topic.b", ("partition:b",))


def test_if_none_can_be_reached_it_is_served_here():
    assert route(make_router("c"), FakeCall(unreachable={"topic.a", "topic.b"})) is None
    assert route(make_router(ROUTER), FakeCall(unreachable={"topic.a", "topic.b", "topic.c"})) is None


def test_a_call_that_may_have_been_sent_is_sent_to_no_other():
    call = FakeCall(unknown={"topic.a"})
    assert route(make_router("c"), call) is None
    assert len(call.sent) == 1


def test_without_a_host_the_next_one_is_asked():
    call = FakeCall()
    assert pass_on(make_router("a"), call) == ("topic.b", "b")
    assert call.sent == [("topic.b", ("partition:a ctl1: no host", "partition:b"))]


def test_the_last_one_refuses():
    entries = path.answered(path.sent(path.answered((), "a", "no"), "b"), "b", "no")
    assert pass_on(make_router("c"), FakeCall(path.sent(entries, "c"))) == (None, "")


def test_each_partition_is_asked_once():
    entries, asked = (), []
    own = "a"
    while True:
        asked.append(own)
        call = FakeCall(entries)
        topic, _ = pass_on(make_router(own), call)
        if topic is None:
            break
        own, entries = topic.removeprefix("topic."), call.sent[-1][1]
        assert route(make_router(own), FakeCall(entries)) is None
    assert asked == ["a", "b", "c"]


def test_a_partition_that_has_not_answered_is_asked_again_before_a_call_is_refused():
    """One of its schedulers returned the call as it stopped, say; another one is alive."""
    entries = path.answered(path.sent((), "a"), "b", "no")
    call = FakeCall(path.sent(entries, "c"))
    assert pass_on(make_router("c"), call) == ("topic.a", "a")
    _, entries = call.sent[-1]
    assert pass_on(make_router("a"), FakeCall(entries)) == (None, "")
    entries += path.sent((), "a") * (path.MOST_SENT - 2)
    with pytest.raises(PartitionUnreachable):  # it has not answered for too often
        pass_on(make_router("c"), FakeCall(entries))
    assert pass_on(make_router("c", ALL[1:]), FakeCall(entries)) == (None, ""), "none of it is alive"
    assert pass_on(make_router("c", ALL[1:]), call) == (None, ""), "none of it is alive"


def test_what_may_have_been_passed_on_comes_again():
    call = FakeCall(unknown={"topic.b"})
    with pytest.raises(Postponed):
        pass_on(make_router("a"), call)
    assert [topic for topic, _ in call.sent] == ["topic.b"]


def test_without_a_host_the_partition_after_one_that_cannot_be_reached_is_asked():
    call = FakeCall(unreachable={"topic.b"})
    assert pass_on(make_router("a"), call) == ("topic.c", "c")


def test_a_call_is_not_refused_while_a_partition_cannot_be_reached():
    call = FakeCall(unreachable={"topic.b", "topic.c"})
    with pytest.raises(Postponed):
        pass_on(make_router("a"), call)
    assert [topic for topic, _ in call.sent] == ["topic.b", "topic.c"]


def test_a_call_that_came_back_often_enough_is_not_refused_for_want_of_hosts():
    call = FakeCall(unreachable={"topic.b", "topic.c"}, can_be_postponed=False)
    with pytest.raises(PartitionUnreachable) as raised:
        pass_on(make_router("a"), call)
    assert not isinstance(raised.value, NoValidHost)


def test_a_request_for_a_host_goes_to_its_partition_and_to_no_other():
    places = FakePlaces(b=["h"])
    facts = RoutingFacts(host="h")
    assert route(make_router("a", places=places), FakeCall(), facts) == "topic.b"
    assert pass_on(make_router("b", places=places), FakeCall(path.sent((), "b")), facts) == (None, "")


def test_a_request_for_a_host_goes_to_its_partition_again_if_that_has_not_answered():
    router, facts = make_router("a", places=FakePlaces(b=["h"])), RoutingFacts(host="h")
    assert route(router, FakeCall(path.sent((), "b")), facts) == "topic.b"
    assert route(router, FakeCall(path.sent((), "b") * path.MOST_SENT), facts) is None


def test_a_request_for_a_cell_goes_where_the_cell_is_told_to_be():
    members = [member("a", 900, cells=("x",)), member("b", 100, cells=("y", "z")), member("c", 50)]
    assert route(make_router("c", members), FakeCall(), RoutingFacts(cell_uuid="z")) == "topic.b"


def test_requests_spread_over_equal_partitions_between_two_beats():
    router = make_router(ROUTER, [member("a"), member("b")])
    sent = [route(router, FakeCall(), RoutingFacts(memory_mb=10)) for _ in range(10)]
    assert sorted(sent) == ["topic.a"] * 5 + ["topic.b"] * 5


def test_a_partition_that_was_killed_is_not_heard_of_any_more_when_its_calls_come_back():
    assert BEAT_INTERVAL < LATELY < WAIT_LIMIT
