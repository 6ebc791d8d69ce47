import threading

from scheduler.conf.partitions import Partition
from scheduler.router.presence import IDLE, PING_INTERVAL, Presence
from tests.support.waiting import eventually

A, B = Partition("a", "topic.a"), Partition("b", "topic.b")


def test_those_that_do_not_answer_are_pinged_until_they_do():
    answers, pinged = {"a": False}, []

    def ping(partition):
        pinged.append(partition.name)
        return answers[partition.name]

    presence = Presence([A, B], ping)
    assert (presence.look(), pinged) == (IDLE, [])
    presence.miss(A)
    assert (presence.look(), pinged) == (PING_INTERVAL, ["a"])
    answers["a"] = True
    assert (presence.look(), presence.wait_for_one_of([A], 0.0)) == (IDLE, A)


def test_one_that_does_not_answer_delays_no_other_one():
    """Each takes some seconds: of ten partitions the last would be found after a minute."""
    heard = threading.Event()
    presence = Presence([A, B], lambda partition: partition == B or not heard.wait(20))
    presence.miss(A)
    presence.miss(B)
    looking = threading.Thread(target=presence.look)
    looking.start()
    assert presence.wait_for_one_of([B], 10.0) == B
    heard.set()
    looking.join(30)


def test_the_first_one_that_answers_is_taken():
    presence = Presence([A, B], lambda _partition: False)
    assert presence.wait_for_one_of([B, A], 0.0) == B
    presence.miss(B)
    assert presence.wait_for_one_of([B, A], 0.0) == A
    assert presence.wait_for_one_of([B], 0.0) is None
    assert presence.wait_for_one_of([B], -1.0) is None


def test_one_that_answers_again_is_waited_for_without_polling():
    presence, found = Presence([A], lambda _partition: False), []
    presence.miss(A)
    waiting = threading.Thread(target=lambda: found.append(presence.wait_for_one_of([A], 30.0)))
    waiting.start()
    assert eventually(lambda: presence._changed._waiters)
    presence.hear(A)
    waiting.join(30)
    assert found == [A]


def test_the_thread_begins_at_once_when_one_does_not_answer():
    pinged = threading.Event()
    presence = Presence([A], lambda _partition: pinged.set() or True)
    presence.start()
    try:
        presence.miss(A)
        assert pinged.wait(30)
        assert presence.wait_for_one_of([A], 30.0) == A
    finally:
        presence.stop()
