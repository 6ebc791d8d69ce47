"""The demo as a visitor runs it."""

import pathlib
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


def run(*options):
    command = [sys.executable, "-W", "ignore", "-m", "tools.demo", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)


def test_builds_that_fail_end_on_alternates():
    done = run("--hosts", "20", "--instances", "8", "--fail-rate", "0.3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "build failed" in done.stdout
    assert "none left over from a failed build" in done.stdout
    assert done.stderr == ""


@pytest.mark.rabbitmq
def test_over_a_real_broker_nothing_of_its_url_is_touched_or_left(rabbit, monkeypatch):
    url = rabbit.vhost("demo")
    for name, value in rabbit.environment.items():
        monkeypatch.setenv(name, value)
    before = rabbit.vhosts()
    done = run("--hosts", "10", "--instances", "4", "--fail-rate", "0", "--rabbit", url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "built          4 of 4" in done.stdout
    assert rabbit.vhosts() == before
    assert rabbit.queues("demo") == []


def test_an_interrupt_is_one_line():
    command = [sys.executable, "-W", "ignore", "-m", "tools.demo", "--hosts", "10"]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    running.stdout.readline()
    time.sleep(2)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert errors.splitlines() == ["", "tools/demo: interrupted, everything is stopped and removed"]
