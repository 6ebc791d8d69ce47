import multiprocessing

import pytest

from scheduler.daemon.shared_state import Milestone

WORKERS = 4


def milestone(workers=WORKERS):
    return Milestone(multiprocessing.get_context("fork"), workers)


def test_a_worker_that_dies_at_a_milestone_does_not_keep_the_master_waiting():
    class Died(Exception):
        pass

    class Context:
        """Of two workers the second one dies at its first release; its successor comes while the master waits."""

        released = 0

        def Semaphore(self, value):  # noqa: N802 - as multiprocessing has it
            return self

        def RawArray(self, code, size):  # noqa: N802
            return bytearray(size)

        def release(self):
            self.released += 1
            if self.released == 2:
                raise Died

    context = Context()
    made = Milestone(context, 2)
    made.reach(0)
    with pytest.raises(Died):
        made.reach(1)
    made.reach(1)
    assert context.released == 3


def test_a_worker_that_is_started_again_counts_once_at_a_milestone():
    loaded = milestone(2)
    for _ in range(2):
        loaded.reach(0)
    assert (loaded.wait_for_all(timeout=0.0), loaded.wait_for_all(timeout=0.0)) == (1, 1)
    loaded.reach(1)
    assert loaded.wait_for_all() == loaded.wait_for_all() == 2
