"""The demo as a visitor runs it."""

import pathlib
import re
import signal
import subprocess
import sys

import pytest

from tests.support import forked
from tools.scenarios import demo

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


def run(*options):
    return forked.run("-m", "tools.scenarios", "demo", *options, timeout=290)


def test_builds_that_fail_end_on_alternates():
    done = run("--hosts", "20", "--instances", "8", "--fail-rate", "0.3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "build failed" in done.stdout
    assert "none left over from a failed build" in done.stdout
    assert done.stderr == ""
    _, _, resize = done.stdout.partition("Resizing an instance")
    assert re.search(r"hosts +cmp-\d+ \S  cmp-\d+", resize), resize
    assert "The resize is confirmed" in resize


@pytest.mark.rabbitmq
def test_several_schedulers_share_the_work_over_a_broker(tmp_path, rabbit, capsys):
    options = ["--hosts", "10", "--instances", "4", "--fail-rate", "0", "--schedulers", "2"]
    status, shown = demo.run(demo.parse(options), tmp_path, rabbit), capsys.readouterr().out
    assert status == 0, shown
    assert "built          4 of 4" in shown
    assert "scheduler-2" in shown


@pytest.fixture
def interruptible():
    """Let children notice SIGINT: a suite that runs in the background ignores it, and so would they."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_is_one_line(interruptible):
    """The demo is a program here, as a visitor runs it."""
    # so many instances that it has not ended when the signal comes
    demo = ["tools.scenarios", "demo", "--hosts", "10", "--instances", "20000"]
    command = [sys.executable, "-u", "-W", "ignore", "-m", *demo]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            assert any("Booting" in line for line in running.stdout)
            running.send_signal(signal.SIGINT)
            _, errors = running.communicate(timeout=100)
        finally:
            running.kill()
    assert running.returncode == 130
    assert errors.splitlines() == ["", "tools/demo: interrupted, everything is stopped and removed"]
