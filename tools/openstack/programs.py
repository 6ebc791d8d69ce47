"""Programs that scenarios run to their ends: OpenStack's, Berth's of this checkout, and both audits."""

from collections.abc import Container, Mapping
import os
from pathlib import Path
import subprocess
from typing import Any

from tools.openstack.layout import Layout
from tools.rig import service
from tools.rig.service import ANY, command_of, environment_of_berth

TIMEOUT = 900
#: Seconds until a record counts as settled: nothing is in progress when a scenario audits.
GRACE = 5
STATUS_MODULE = "scheduler.operators.programs berth-status"
Done = subprocess.CompletedProcess[str]


def environment(**more: str) -> dict[str, str]:
    """Return the variables of a program that is not Berth."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHON"}}
    return {**kept, "PYTHONWARNINGS": "ignore", **more}


def run(*words: str | Path, variables: Mapping[str, str] | None = None, **options: Any) -> Done:
    """Run a program to its end, by default in ``environment``; raises and has options as ``service.run``."""
    variables = environment() if variables is None else variables
    return service.run(words, environment=variables, **{"timeout": TIMEOUT, **options})


def berth(layout: Layout, module: str, *words: str | Path) -> tuple[list[str], dict[str, str]]:
    """Return the command of a program of Berth, and its variables with the credentials of the cloud."""
    return [*map(str, (*command_of(module, layout.nova_conf), *words))], {
        **environment_of_berth(),
        **layout.credentials(),
    }


def run_berth(layout: Layout, module: str, *words: str | Path, allowed: Container[int] = (0,)) -> Done:
    """Run a program of Berth to its end; raises as ``run``."""
    command, variables = berth(layout, module, *words)
    return run(*command, variables=variables, allowed=allowed)


def show_audits(layout: Layout) -> bool:
    """Print what the audits of Berth and of nova find; return whether they find nothing."""
    nova = [layout.program("nova-manage"), "--config-file", layout.nova_conf, "placement", "audit"]
    berth = ("audit", "--grace", str(GRACE))
    audits = {
        "berth-status audit": run_berth(layout, STATUS_MODULE, *berth, allowed=ANY),
        "nova-manage placement audit": run(*nova, "--verbose", allowed=ANY),
    }
    found = {name: done for name, done in audits.items() if done.returncode}
    for name, done in found.items():
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        print(f"{name} ends with status {done.returncode}:", *lines[-20:], sep="\n", flush=True)
    if not found:
        print(f"{' and '.join(audits)} find nothing", flush=True)
    return not found
