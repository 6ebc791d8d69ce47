"""Programs that scenarios run to their ends: OpenStack's, and Berth's of this checkout."""

from collections.abc import Container, Mapping
import os
from pathlib import Path
import subprocess
from typing import Any

from tools.openstack.layout import Layout
from tools.rig import service
from tools.rig.service import command_of, environment_of_berth

TIMEOUT = 900
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
    config_file = layout.directory / "etc" / "nova" / "nova.conf"
    return [*map(str, (*command_of(module, config_file), *words))], {
        **environment_of_berth(),
        **layout.credentials(),
    }


def run_berth(layout: Layout, module: str, *words: str | Path, allowed: Container[int] = (0,)) -> Done:
    """Run a program of Berth to its end; raises as ``run``."""
    command, variables = berth(layout, module, *words)
    return run(*command, variables=variables, allowed=allowed)
