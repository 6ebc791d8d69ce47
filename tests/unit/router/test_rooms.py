import pytest

from scheduler.router.rooms import Rooms
from scheduler.stream.records import Member


def member(partition, free_mb, total_mb, sender="s"):
    return Member(sender, partition=partition, free_mb=free_mb, total_mb=total_mb)


def test_the_room_is_the_share_that_is_free():
    rooms = Rooms()
    assert rooms.shares([member("a", 250, 1000), member("b", 90, 100)]) == {"a": 0.25, "b": 0.9}


def test_a_partition_without_hosts_has_no_room():
    assert Rooms().shares([member("a", 0, 0)]) == {"a": 0.0}


def test_of_several_schedulers_the_one_that_knows_of_most_memory_counts():
    rooms = Rooms()
    assert rooms.shares([member("a", 0, 0, "new"), member("a", 50, 100, "old")]) == {"a": 0.5}


def test_what_was_sent_counts_until_the_partition_tells_of_its_room_again():
    rooms = Rooms()
    members = [member("a", 500, 1000), member("b", 500, 1000)]
    rooms.shares(members)
    rooms.sent("a", 100)
    rooms.sent("a", 100)
    assert rooms.shares(members) == {"a": pytest.approx(0.3), "b": 0.5}
    assert rooms.shares([member("a", 320, 1000), members[1]]) == {"a": 0.32, "b": 0.5}


def test_requests_alternate_between_equal_partitions():
    rooms = Rooms()
    members = [member("a", 1000, 1000), member("b", 2000, 2000)]
    sent = []
    for _ in range(300):
        shares = rooms.shares(members)
        sent.append(max(sorted(shares), key=shares.get))
        rooms.sent(sent[-1], 2)
    assert sent.count("a") == pytest.approx(100, abs=2)


def test_no_room_is_less_than_none():
    rooms = Rooms()
    members = [member("a", 10, 1000)]
    rooms.shares(members)
    rooms.sent("a", 100)
    assert rooms.shares(members) == {"a": 0.0}
