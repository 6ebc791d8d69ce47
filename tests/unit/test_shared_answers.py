"""Answers that processes share: who asks, who waits, and what an answer may be used for."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
import errno
import multiprocessing
import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from scheduler import shared_answers, worker_locks
from scheduler.deadline import Deadline, limit_to
from scheduler.shared_answers import DIRECTORY_PREFIX, SharedAnswer, SharedAnswers, make_directory
from scheduler.worker_locks import LONGEST_PAUSE
from tests.support.clock import Clock
from tests.support.waiting import eventually


class Asked:
    """Answers questions with a number, and counts them."""

    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1
        return b"answer %d" % self.count


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def asked():
    return Asked()


def worker(directory, clock=time.monotonic, **options):
    """What one process has; in these tests two of them are of one process as a rule."""
    return SharedAnswers(directory, clock, **options)


@pytest.mark.parametrize(
    ("later", "expected"),
    [(-1.0, (1000.0, b"answer 1")), (0.0, (1000.0, b"answer 1")), (0.5, (1001.0, b"answer 2"))],
)
def test_an_answer_is_used_by_those_who_came_before_its_question_was_sent(
    tmp_path, clock, asked, later, expected
):
    first, second = worker(tmp_path, clock), worker(tmp_path, clock)
    assert first.get("q", 1000.0, asked) == SharedAnswer(1000.0, b"answer 1")
    clock.now += 1
    assert second.get("q", 1000.0 + later, asked) == SharedAnswer(*expected)


def test_other_questions_have_other_answers(tmp_path, clock, asked):
    found = [worker(tmp_path, clock).get(question, 0.0, asked).body for question in ("p", "q", "p")]
    assert found == [b"answer 1", b"answer 2", b"answer 1"]


def test_without_a_directory_each_question_is_asked(clock, asked):
    alone = SharedAnswers(clock=clock)
    assert [alone.get("q", 0.0, asked).body for _ in range(2)] == [b"answer 1", b"answer 2"]


def test_a_failure_is_raised_and_not_shared(tmp_path, clock, asked):
    def fail():
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        worker(tmp_path, clock).get("q", 0.0, fail)
    assert worker(tmp_path, clock).get("q", 0.0, asked).body == b"answer 1"


@pytest.mark.parametrize("body", [b"", bytes(range(256)) * 5000], ids=["empty", "large"])
def test_bodies_come_as_they_are(tmp_path, clock, body):
    worker(tmp_path, clock).get("q", 0.0, lambda: body)
    assert worker(tmp_path, clock).get("q", 0.0, lambda: b"other").body == body


def answer_file(directory):
    (path,) = directory.glob("*.answer")
    return path


DAMAGES = {
    "truncated": lambda data: data[:-1],
    "longer": lambda data: data + b"x",
    "header only": lambda data: data[:56],
    "half a header": lambda data: data[:20],
    "empty": lambda data: b"",
    "foreign": lambda data: b"x" * len(data),
    "of another question": lambda data: data[:8] + bytes(32) + data[40:],
    "no time": lambda data: data[:40] + b"\0" * 6 + b"\xf8\x7f" + data[48:],  # not a number
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_file_that_is_not_a_whole_answer_counts_as_none(tmp_path, clock, asked, damage):
    worker(tmp_path, clock).get("q", 0.0, asked)
    path = answer_file(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert worker(tmp_path, clock).get("q", 0.0, asked).body == b"answer 2"
    assert worker(tmp_path, clock).get("q", 0.0, asked).body == b"answer 2"  # which is stored in its place


@pytest.mark.parametrize("missing", ["directory", "space"])
def test_a_worker_that_cannot_use_files_asks_for_itself_and_says_so_once(
    tmp_path, clock, asked, missing, monkeypatch, caplog
):
    if missing == "directory":
        tmp_path = tmp_path / "removed"
    else:
        monkeypatch.setattr(os, "pwrite", full_disk)
    mine = worker(tmp_path, clock)
    assert [mine.get("q", 0.0, asked).body for _ in range(3)] == [b"answer 1", b"answer 2", b"answer 3"]
    assert caplog.text.count("Answers cannot be shared") == 1


def full_disk(*_arguments):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_slot_whose_release_cannot_be_told_is_free_all_the_same(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(os, "ftruncate", full_disk)
    for _ in range(2):
        with worker(tmp_path, clock).locks.slot("writes", 1, 0.0):
            pass


def test_an_answer_that_does_not_fit_leaves_nothing(tmp_path, clock, asked, monkeypatch, caplog):
    monkeypatch.setattr(shared_answers.Path, "rename", full_disk)
    assert worker(tmp_path, clock).get("q", 0.0, asked).body == b"answer 1"
    assert {path.suffix for path in tmp_path.iterdir()} == {".lock", ".fifo"}
    assert "No space left" in caplog.text


def test_answers_are_few_and_young(tmp_path, clock, asked, monkeypatch):
    mine = worker(tmp_path, clock)
    for number in range(shared_answers.MOST_ANSWERS + 5):
        clock.now += 0.1
        mine.get(f"q{number}", clock.now, asked)
    assert len(list(tmp_path.glob("*.answer"))) == shared_answers.MOST_ANSWERS
    count = asked.count
    mine.get("q0", 0.0, asked)  # the oldest is gone
    mine.get(f"q{number}", 0.0, asked)  # the latest is there
    assert asked.count == count + 1
    clock.now += shared_answers.KEPT + 1
    mine.get("q", clock.now, asked)
    assert len(list(tmp_path.glob("*.answer"))) == 1
    monkeypatch.setattr(shared_answers, "MOST_BYTES", 200)
    for number in range(5):
        clock.now += 1
        mine.get(f"p{number}", clock.now, asked)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.answer")) <= 200
    mine.get("large", 0.0, lambda: b"x" * 201)
    assert mine.get("large", 0.0, asked).body != b"x" * 201


@contextmanager
def asking_elsewhere(directory, question="q", at_once=0):
    """Another thread asks; yields what lets it have its answer."""
    asks, goes_on = threading.Event(), threading.Event()

    def ask():
        asks.set()
        assert goes_on.wait(10)
        return b"elsewhere"

    thread = threading.Thread(target=worker(directory).get, args=(question, 0.0, ask, at_once))
    thread.start()
    assert asks.wait(10)
    try:
        yield goes_on
    finally:
        goes_on.set()
        thread.join(10)


def test_who_waits_takes_the_answer_of_the_other_one_if_it_came_before(tmp_path, asked):
    before = time.monotonic()
    with asking_elsewhere(tmp_path) as goes_on:
        threading.Timer(0.02, goes_on.set).start()
        assert worker(tmp_path).get("q", before, asked).body == b"elsewhere"
    assert asked.count == 0


def test_a_process_is_told_when_a_question_is_sent_for_it_by_whomever(tmp_path, asked):
    """With a moment between its coming and the sending: what came until then is answered."""
    came_early, told = time.monotonic(), []
    with asking_elsewhere(tmp_path) as goes_on:
        came_late = time.monotonic()

        def sending(moment):
            told.append(moment)
            goes_on.set()

        found = worker(tmp_path).get("q", came_early, asked, sending=sending)
        assert came_early <= told[0] <= found.asked_at <= came_late
        assert asked.count == 0
    del told[:]
    found = worker(tmp_path).get("q", came_late, asked, sending=told.append)
    assert told == [found.asked_at]


def test_a_question_that_waits_for_a_slot_is_not_said_to_be_sent(tmp_path, asked):
    """Until it is sent, who waits in another process can let later requests join."""
    came_at, told = time.monotonic(), []
    with ThreadPoolExecutor(2) as pool:
        with worker(tmp_path).locks.slot("questions", 1, 10):
            first = pool.submit(worker(tmp_path).get, "q", came_at, asked, 1)
            assert eventually(lambda: any(path.stat().st_size for path in tmp_path.glob("???.lock")))
            joins = pool.submit(worker(tmp_path).get, "q", came_at, asked, 1, told.append)
            time.sleep(0.05)
            free_at = time.monotonic()
        assert joins.result(10) == first.result(10)
    assert asked.count == 1
    assert all(free_at <= moment <= first.result().asked_at for moment in told)


def test_who_came_later_waits_and_asks_next(tmp_path, asked):
    with asking_elsewhere(tmp_path) as goes_on:
        came_at = time.monotonic()
        threading.Timer(0.02, goes_on.set).start()
        found = worker(tmp_path).get("q", came_at, asked)
    assert found.body == b"answer 1"
    assert goes_on.is_set()
    assert found.asked_at >= came_at


@pytest.mark.parametrize(("patience", "remaining", "waits"), [(20.0, 1e9, 20.0), (20.0, 8.0, 4.0)])
def test_a_wait_ends_after_a_while_or_half_of_what_is_left(tmp_path, asked, patience, remaining, waits):
    began = time.monotonic()
    clock = Clock(began)
    slept = []

    def wait(_files, seconds):
        slept.append(seconds)
        clock.now += seconds
        return False

    with (
        asking_elsewhere(tmp_path),
        limit_to(Deadline(began + remaining, clock)),
    ):
        mine = worker(tmp_path, clock, wait=wait, patience=patience)
        assert mine.get("q", began, asked).body == b"answer 1"
        assert sum(slept) == pytest.approx(waits, abs=0.2)
        assert max(slept) <= LONGEST_PAUSE
        del slept[:]
        if remaining > 1e6:  # it is waited for once, not by each one anew
            assert mine.get("q", clock.now, asked).body == b"answer 2"
            assert slept == []


def test_questions_in_flight_are_bounded(tmp_path):
    """In all workers together; one without a bound does not count."""
    in_flight, most, lock = [], [], threading.Lock()

    def ask():
        with lock:
            in_flight.append(1)
            most.append(len(in_flight))
        time.sleep(0.003)
        with lock:
            in_flight.pop()
        return b""

    def ask_often(number):
        for turn in range(5):
            worker(tmp_path).get(f"{number} {turn}", 0.0, ask, at_once=2)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(ask_often, range(6)))
        assert max(most) == 2
        with asking_elsewhere(tmp_path, "a", at_once=1):
            assert worker(tmp_path).get("b", 0.0, lambda: b"unbounded").body == b"unbounded"


def test_a_slot_is_not_waited_for_without_end(tmp_path, asked):
    with asking_elsewhere(tmp_path, "a", at_once=1):
        found = worker(tmp_path, patience=0.02).get("b", 0.0, asked, at_once=1)
    assert found.body == b"answer 1"
    assert worker(tmp_path).get("b", 0.0, asked) == found  # which is shared all the same


def test_a_process_that_has_much_to_do_does_not_keep_a_slot_for_itself(tmp_path):
    begun, ended, turns = threading.Event(), threading.Event(), []

    def keep_asking():
        busy = worker(tmp_path)
        while not ended.is_set() and len(turns) < 1000:
            with busy.locks.slot("writes", 1, 20.0):
                turns.append(1)
                time.sleep(0.002)
            begun.set()

    thread = threading.Thread(target=keep_asking)
    thread.start()
    assert begun.wait(10)
    before = len(turns)
    with worker(tmp_path).locks.slot("writes", 1, 20.0):
        passed = len(turns) - before
    ended.set()
    thread.join(10)
    assert passed < 50


def test_who_waits_for_a_slot_is_woken_when_it_is_free(tmp_path, monkeypatch):
    monkeypatch.setattr(worker_locks, "LONGEST_PAUSE", 60.0)
    took, lock = [], threading.Lock()

    def take(number):
        slots = worker(tmp_path, patience=60.0).locks
        for _ in range(20):
            with slots.slot("writes", 1, 60.0), lock:
                took.append(number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(take, range(4), timeout=60))
    assert sorted(took) == sorted(20 * [0, 1, 2, 3])


# -- processes ----------------------------------------------------------------------------------------------

FORK = multiprocessing.get_context("fork")


def asking_process(directory, patience):
    """A process that has asked and has no answer yet."""
    asks = FORK.Event()

    def ask():
        asks.set()
        time.sleep(60)
        return b"too late"

    process = FORK.Process(
        target=lambda: worker(directory, patience=patience).get("q", 0.0, ask), daemon=True
    )
    process.start()
    assert asks.wait(10)
    return process


def test_the_lock_of_a_killed_process_is_free(tmp_path, asked, monkeypatch):
    monkeypatch.setattr(worker_locks, "LONGEST_PAUSE", 60.0)
    process = asking_process(tmp_path, 60)
    threading.Timer(0.05, process.kill).start()
    assert worker(tmp_path, patience=60).get("q", 0.0, asked).body == b"answer 1"
    process.join(10)
    assert process.exitcode == -signal.SIGKILL


def test_a_stopped_process_is_not_waited_for_without_end(tmp_path, asked):
    process = asking_process(tmp_path, 0.05)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        assert worker(tmp_path, patience=0.05).get("q", 0.0, asked).body == b"answer 1"
    finally:
        process.kill()
        process.join(10)


def ask_often(directory, seed, results):
    """One worker: asks as requests come; tells of each when it came and of when its answer is."""
    mine, rng = worker(directory), random.Random(seed)

    def ask():
        sent = time.monotonic()
        time.sleep(0.002)
        return f"{sent!r}".encode()

    for _ in range(30):
        came = time.monotonic()
        found = mine.get(f"q{rng.randrange(2)}", came, ask)
        results.put((came, found.asked_at, float(found.body)))
        time.sleep(rng.random() / 500)


def test_whoever_asks_in_whatever_process_the_answer_is_as_of_after_the_request_came(tmp_path):
    results = FORK.SimpleQueue()
    processes = [FORK.Process(target=ask_often, args=(tmp_path, seed, results)) for seed in range(3)]
    for process in processes:
        process.start()
    found = [results.get() for _ in range(3 * 30)]
    for process in processes:
        process.join(10)
    assert all(came <= asked_at <= sent for came, asked_at, sent in found)
    assert len({sent for _, _, sent in found}) < len(found)  # some were shared


# -- the directory ------------------------------------------------------------------------------------------


def test_the_directory_is_private_and_in_the_first_place_that_can_be_used(tmp_path):
    directory = make_directory([None, "", str(tmp_path / "missing"), str(tmp_path)])
    assert directory.parent == tmp_path
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_without_a_place_nothing_is_shared(tmp_path, caplog):
    assert make_directory([str(tmp_path / "missing")]) is None
    assert "Workers ask for themselves" in caplog.text


PROCESS = """
import sys
from scheduler.shared_answers import make_directory
print(make_directory([sys.argv[1]]), flush=True)
sys.stdin.read()
"""


@contextmanager
def master(parent):
    """A process that has made a directory."""
    command = [sys.executable, "-c", PROCESS, str(parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        directory = process.stdout.readline().strip()
        yield process, shared_answers.Path(directory)
        process.kill()


def test_the_directory_goes_with_the_process_that_made_it(tmp_path):
    with master(tmp_path) as (process, directory):
        assert directory.is_dir()
        process.communicate("")
        assert process.returncode == 0
        assert not directory.exists()


def test_what_a_killed_process_has_left_is_removed_by_the_next_one(tmp_path):
    with master(tmp_path) as (killed, left), master(tmp_path) as (_, in_use):
        (left / "x").write_bytes(b"x")
        (tmp_path / f"{DIRECTORY_PREFIX}file").touch()
        killed.kill()
        killed.wait()
        mine = make_directory([str(tmp_path)])
        assert (left.exists(), in_use.exists(), mine.exists()) == (False, True, True)
