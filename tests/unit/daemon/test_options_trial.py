import sys

import pytest

from scheduler import conf as options
from scheduler import errors
from scheduler.daemon import options_trial
from scheduler.daemon.options_trial import try_options


@pytest.fixture
def conf():
    return options.load([], default_config_files=[])


def program(text):
    """The command of a program in the place of the daemon."""
    return [sys.executable, "-c", f"import os, signal, sys, time\n{text}"]


def test_the_program_is_started_with_its_arguments_to_check_them(conf, tmp_path):
    seen = tmp_path / "seen"
    try_options(conf, [*program(f"open({str(seen)!r}, 'w').write(repr(sys.argv[1:]))"), "--config-file", "x"])
    assert seen.read_text() == "['--config-file', 'x', '--check-config']"


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (
            "sys.exit('a warning\\nberth-scheduler: no Filter\\nberth-scheduler: no database')",
            "no Filter.*no database",
        ),
        ("sys.exit(7)", "the check of the options ended with 7"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "the rules ended the process in which they were loaded"),
        ("os.kill(os.getpid(), signal.SIGALRM)", "no result within 20 seconds"),
    ],
    ids=["findings", "another status", "killed", "hangs"],
)
def test_options_that_are_refused(conf, text, finding):
    with pytest.raises(errors.ConfigError, match=f"(?s){finding}") as raised:
        try_options(conf, program(text))
    assert "a warning" not in str(raised.value)


def test_a_check_that_does_not_end_is_ended(conf, monkeypatch):
    monkeypatch.setattr(options_trial, "TRIAL_TIMEOUT", 0.1)
    monkeypatch.setattr(options_trial, "TIME_TO_END", 0.1)
    with pytest.raises(errors.ConfigError, match="the check of the options did not end"):
        try_options(conf, program("time.sleep(1000)"))


def test_without_room_for_a_process_the_options_are_refused(conf):
    with pytest.raises(errors.ConfigError, match="no process can be started to try the options"):
        try_options(conf, ["/absent/program"])
