import errno
import multiprocessing
import os
import threading

import pytest

from scheduler import conf as options
from scheduler import errors
from scheduler.daemon.options_trial import try_in_child


@pytest.fixture
def fork():
    return multiprocessing.get_context("fork")


@pytest.fixture
def conf():
    return options.load([], default_config_files=[])


def test_options_that_a_manager_can_be_built_with_are_accepted_and_leave_nothing_behind(fork, conf):
    built = []
    try_in_child(fork, built.append, conf)
    assert built == []


def test_a_build_that_hangs_is_refused_after_the_timeout(fork, conf):
    with pytest.raises(errors.ConfigError, match=r"no result within 0\.1 seconds"):
        try_in_child(fork, lambda conf: threading.Event().wait(), conf, timeout=0.1)


def test_a_trial_that_hangs_does_not_outlive_a_dead_master_for_long(fork, conf):
    """While it lives, workers do not notice that the master is dead."""
    receiver, sender = fork.Pipe(duplex=False)

    def hang(_conf):
        sender.send("begun")
        threading.Event().wait()

    master = fork.Process(target=try_in_child, args=(fork, hang, conf, 0.1))
    master.start()
    sender.close()
    assert receiver.recv() == "begun"
    master.kill()
    master.join()
    assert receiver.poll(60)
    with pytest.raises(EOFError):
        receiver.recv()


def test_without_room_for_a_process_the_options_are_refused_and_no_pipe_is_left(fork, conf, monkeypatch):
    def no_room():
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    pipes = []
    monkeypatch.setattr(os, "fork", no_room)
    monkeypatch.setattr(fork, "Pipe", lambda **how: pipes.append(multiprocessing.Pipe(**how)) or pipes[0])
    with pytest.raises(errors.ConfigError, match="no process can be started to try the options"):
        try_in_child(fork, lambda conf: None, conf)
    assert [end.closed for end in pipes[0]] == [True, True]


@pytest.mark.parametrize("text", ["", "[loggers]\nkeys=root\n[logger_root]\nlevel=LOUD\nhandlers=\n"])
def test_a_logging_configuration_with_a_mistake_is_refused(fork, conf, tmp_path, text):
    path = tmp_path / "logging.conf"
    path.write_text(f"{text}[handlers]\nkeys=\n[formatters]\nkeys=\n")
    conf.set_override("log_config_append", str(path))
    with pytest.raises(errors.ConfigError, match=rf"\[DEFAULT\]/log_config_append: {path}: "):
        try_in_child(fork, lambda conf: None, conf)
