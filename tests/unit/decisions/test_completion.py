"""Explanations that are completed after the caller has heard that there is no host."""

import threading

from scheduler.decisions import completion as completion_module
from scheduler.decisions.completion import Completion
from scheduler.decisions.memory import KeptDecision


class Completed:
    """What was completed and closed, by request id; ``hold`` lets the first completion wait."""

    def __init__(self):
        self.completed, self.closed = [], []
        self.hold, self.begun = threading.Event(), threading.Event()
        self.hold.set()
        self.completion = Completion(self._complete, lambda kept: self.closed.append(kept.request_id))

    def _complete(self, kept):
        self.begun.set()
        assert self.hold.wait(10)
        self.completed.append(kept.request_id)

    def add(self, *names):
        for name in names:
            self.completion.add(KeptDecision(name, [f"instance of {name}"], None))


def test_they_are_completed_in_the_background_the_oldest_first():
    one = Completed()
    one.completion.start()
    one.add("a", "b")
    one.completion.complete_now(timeout=10.0)
    one.completion.stop()
    assert (one.completed, one.closed) == (["a", "b"], ["a", "b"])


def test_a_question_completes_the_one_that_it_names():
    one = Completed()
    one.add("a", "b", "c")
    one.completion.complete_now("instance of b")
    one.completion.complete_now("unknown")
    assert (one.completed, one.closed) == (["b"], ["b"])


def test_a_question_waits_for_the_one_in_progress_and_goes_before_others():
    one = Completed()
    one.hold.clear()
    one.completion.start()
    one.add("a")
    assert one.begun.wait(10)
    one.add("b", "c")
    one.completion.complete_now("a", timeout=0.0)
    one.completion.complete_now("c", timeout=0.0)
    assert one.completed == []
    one.hold.set()
    one.completion.complete_now("a", timeout=10.0)
    assert one.completed[0] == "a"
    one.completion.complete_now(timeout=10.0)
    assert one.completed == ["a", "c", "b"]
    one.completion.stop()


def test_of_too_many_the_oldest_stay_incomplete_and_are_closed(monkeypatch):
    monkeypatch.setattr(completion_module, "MOST_WAITING", 2)
    one = Completed()
    one.add("a", "b", "c")
    assert (one.completed, one.closed) == ([], ["a"])
    one.completion.stop()
    assert (one.completed, one.closed) == ([], ["a", "b", "c"])
