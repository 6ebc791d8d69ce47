from concurrent.futures import ThreadPoolExecutor
import threading
import time

from scheduler.bounds.deadline import Deadline, limit_to
from scheduler.bounds.locks import KeyedLocks


def is_free(locks, key):
    with locks.hold(key, 0.01, "a lock") as held:
        return held


def test_a_key_is_held_by_one_thread_at_a_time():
    locks, inside, most = KeyedLocks(), dict.fromkeys("abc", 0), []
    guard = threading.Lock()

    def work(key):
        with locks.hold(key, 5, "a lock") as held:
            assert held
            with guard:
                inside[key] += 1
                most.append(inside[key])
            time.sleep(0.001)
            with guard:
                inside[key] -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, "abcabbcac" * 4))
    assert max(most) == 1
    assert not locks._locks


def test_after_a_timeout_a_key_is_held_by_who_held_it_before():
    locks = KeyedLocks()
    with locks.hold("b", 1, "a lock"):
        with locks.hold("b", 0.01, "a lock") as held, locks.hold("a", 1, "a lock") as other:
            assert (held, other) == (False, True)
        assert not is_free(locks, "b")
    assert is_free(locks, "b")


def test_a_key_is_waited_for_until_the_deadline_of_the_request():
    locks = KeyedLocks()
    with (
        limit_to(Deadline.after(0.0)),
        locks.hold("a", 60, "a lock") as first,
        locks.hold("a", 60, "a lock") as second,
    ):
        assert (first, second) == (True, False)


def test_locks_are_released_after_an_error():
    locks = KeyedLocks()
    try:
        with locks.hold("a", 1, "a lock"):
            raise ValueError
    except ValueError:
        pass
    assert is_free(locks, "a")
