"""Both audits: that of Berth, and that of nova."""

import os
from pathlib import Path
import subprocess

from tools.openstack.layout import Layout
from tools.openstack.schedulers import Schedulers
from tools.rig.service import command_of, environment_of_berth

#: Seconds until a record counts as settled: nothing is in progress when a scenario audits.
GRACE = 5
TIMEOUT = 300
STATUS_MODULE = "scheduler.operators.status.main"


def audit(layout: Layout) -> list[str]:
    """Return what berth-status audit and nova-manage placement audit find; empty: nothing."""
    config_file = Schedulers(layout).config_file
    berth = [*command_of(STATUS_MODULE, config_file), "audit", "--grace", str(GRACE)]
    nova = [layout.program("nova-manage"), "--config-file", config_file, "placement", "audit", "--verbose"]
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return [
        *_findings("berth-status audit", berth, environment_of_berth()),
        *_findings("nova-manage placement audit", nova, {**without, "PYTHONWARNINGS": "ignore"}),
    ]


def show_audits(layout: Layout) -> bool:
    """Print what the audits find; return whether they find nothing."""
    found = audit(layout)
    for line in found or ["berth-status audit and nova-manage placement audit find nothing"]:
        print(line, flush=True)
    return not found


def _findings(name: str, words: list[str | Path], environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [str(word) for word in words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    if done.returncode == 0:
        return []
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return [f"{name} ends with status {done.returncode}:", *lines[-20:]]
