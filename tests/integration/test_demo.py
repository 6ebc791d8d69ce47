"""The demo as a visitor runs it."""

import pathlib
import subprocess
import sys

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
def test_over_a_real_broker(rabbit):
    url = rabbit.vhost("demo")
    for cell in ("cell1", "cell2"):
        rabbit.vhost(f"demo-{cell}")
    done = run("--hosts", "10", "--instances", "4", "--fail-rate", "0", "--rabbit", url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "built          4 of 4" in done.stdout
