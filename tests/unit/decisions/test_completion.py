"""Explanations that are completed after the caller has heard that there is no host."""

import threading
from types import SimpleNamespace

from scheduler.decisions import completion as completion_module
from scheduler.decisions.completion import Completion


class Completed:
    """What was completed and kept, by request id; ``hold`` lets the first completion wait."""

    def __init__(self):
        self.completed, self.kept = [], []
        self.hold, self.begun = threading.Event(), threading.Event()
        self.hold.set()
        self.completion = Completion(self._complete, lambda trace: self.kept.append(trace.record.request_id))

    def _complete(self, trace):
        self.begun.set()
        assert self.hold.wait(10)
        self.completed.append(trace.record.request_id)

    def add(self, *names):
        for name in names:
            record = SimpleNamespace(request_id=name, instances=[f"instance of {name}"])
            self.completion.add(SimpleNamespace(record=record, unexplained=object()))


def test_they_are_completed_in_the_background_the_oldest_first():
    one = Completed()
    one.completion.start()
    one.add("a", "b")
    one.completion.complete_now(timeout=10.0)
    one.completion.stop()
    assert (one.completed, one.kept) == (["a", "b"], ["a", "b"])


def test_a_question_completes_the_one_that_it_names():
    one = Completed()
    one.add("a", "b", "c")
    one.completion.complete_now("instance of b")
    one.completion.complete_now("unknown")
    assert (one.completed, one.kept) == (["b"], ["b"])


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


def test_of_too_many_the_oldest_stay_incomplete_and_are_kept(monkeypatch):
    monkeypatch.setattr(completion_module, "MOST_WAITING", 2)
    one = Completed()
    one.add("a", "b", "c")
    assert (one.completed, one.kept) == ([], ["a"])
    one.completion.stop()
    assert (one.completed, one.kept) == ([], ["a", "b", "c"])
