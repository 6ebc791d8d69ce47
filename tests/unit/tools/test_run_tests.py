"""What tools/run-tests says of failures, and how it draws the seed of campaigns; pytest is a stand-in here."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.support.sources import ROOT

#: Fails as it is told to in the first run, and in that of the tests that failed.
STAND_IN = """\
#!/bin/bash
case "$*" in
    *"-m pytest --last-failed"*) exit {alone} ;;
    *"-m pytest"*)
        mkdir -p .pytest_cache/v/cache
        echo '{failed}' >.pytest_cache/v/cache/lastfailed
        exit {status} ;;
    -c*) exec {python} "$@" ;;
esac
"""
#: Servers that nothing has to be installed for.
SERVERS = ("rabbitmq-server", "mariadbd", "postgres", "chromium")


@pytest.fixture
def run(tmp_path):
    """A function that runs a copy of the script; its status and what it prints."""
    (tmp_path / "bin").mkdir()
    for name in ("run-tests", "lib/environment.sh"):
        (tmp_path / "tools" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools" / name)

    def run(*arguments, failed=(), alone=0):
        stand_in = STAND_IN.format(
            failed=json.dumps(dict.fromkeys(failed, True)),
            status=bool(failed) + 0,
            alone=alone,
            python=sys.executable,
        )
        for name in ("python", *SERVERS):
            (tmp_path / "bin" / name).write_text(stand_in)
            (tmp_path / "bin" / name).chmod(0o755)
        environment = {
            "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
            "BERTH_PYTHON": f"{tmp_path}/bin/python",
            "BERTH_NOVA_PYTHON": "none",
            "BERTH_UNSTEADY": f"{tmp_path}/unsteady",
        }
        script = ["bash", tmp_path / "tools/run-tests", *arguments]
        done = subprocess.run(
            script, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, done.stdout

    return run


def test_the_result_names_the_state_of_the_machine(run):
    status, output = run("--quick")
    assert status == 0
    assert re.search(
        r"^==> Status 0 of the tests, on a machine up for \d+ s with a load of [\d. ]+$", output, re.MULTILINE
    )


def test_tests_that_pass_alone_are_named_in_the_last_lines(run, tmp_path):
    status, output = run("--quick", failed=["tests/a.py::one", "tests/b.py::two"])
    assert status == 0
    assert output.splitlines()[-2:] == ["unsteady: tests/a.py::one", "unsteady: tests/b.py::two"]
    run("--quick", failed=["tests/a.py::one"])
    assert (tmp_path / "unsteady").read_text().count("unsteady: tests/a.py::one\n") == 2


@pytest.mark.parametrize(("failed", "alone"), [("a", 1), ("abcd", 0)], ids=["fails again", "more than three"])
def test_other_failures_end_the_run(run, tmp_path, failed, alone):
    status, output = run("--quick", failed=failed, alone=alone)
    assert status == 1
    assert "unsteady" not in output
    assert not (tmp_path / "unsteady").exists()


def test_a_campaign_says_how_it_is_run_again(run):
    (first, output), (_, other) = run("--campaigns", "tests"), run("--campaigns", "tests")
    (last,) = output.splitlines()[-1:]
    seed = re.search(r"run-tests --campaigns --campaign-seed=(\d+) --hypothesis-seed=\1 tests", last)[1]
    assert first == 0
    assert seed not in other
    assert f"--campaign-seed={seed} " in run("--campaigns", f"--campaign-seed={seed}", "tests")[1]
