import multiprocessing
import threading

import pytest

from scheduler import errors
from scheduler.daemon.options_trial import try_in_child


@pytest.fixture
def fork():
    return multiprocessing.get_context("fork")


def test_options_that_a_manager_can_be_built_with_are_accepted_and_leave_nothing_behind(fork):
    built = []
    try_in_child(fork, built.append, "options")
    assert built == []


def test_a_build_that_hangs_is_refused_after_the_timeout(fork):
    with pytest.raises(errors.ConfigError, match=r"no result within 0\.1 seconds"):
        try_in_child(fork, lambda conf: threading.Event().wait(), "options", timeout=0.1)
