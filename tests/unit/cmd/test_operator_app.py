"""Programs started as their users start them: in a process where nothing is imported or set up before."""

import configparser
from pathlib import Path
import subprocess
import sys

import pytest

ROOT = Path(__file__).parents[3]


def programs():
    """The modules behind the console scripts of the package."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    lines = parser["entry_points"]["console_scripts"].strip().splitlines()
    return [line.partition("=")[2].strip().partition(":")[0] for line in lines]


@pytest.mark.parametrize("module", programs())
def test_a_program_starts(module):
    run = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert "usage: " in run.stdout
