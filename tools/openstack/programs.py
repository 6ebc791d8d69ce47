"""Programs that scenarios run to their ends: OpenStack's, and Berth's of this checkout."""

from collections.abc import Collection, Mapping
import os
from pathlib import Path
import subprocess

from tools.openstack.layout import Layout
from tools.rig.service import command_of, environment_of_berth

TIMEOUT = 900
Done = subprocess.CompletedProcess[str]


def environment(**more: str) -> dict[str, str]:
    """Return the variables of a program that is not Berth."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHON"}}
    return {**kept, "PYTHONWARNINGS": "ignore", **more}


def run(
    *words: str | Path,
    variables: Mapping[str, str] | None = None,
    allowed: Collection[int] = (0,),
    timeout: float = TIMEOUT,
) -> Done:
    """Run a program to its end.

    Args:
        words: The program and its arguments.
        variables: Its environment; None: ``environment``.
        allowed: The exit statuses that are answers; none: all are.
        timeout: Seconds.

    Raises:
        RuntimeError: It ends with another status, or not in time; the text has the end of its output.
    """
    name = " ".join(map(str, words))
    try:
        done = subprocess.run(
            list(map(str, words)),
            env=environment() if variables is None else variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{name} does not end in {timeout:.0f} s") from None
    if allowed and done.returncode not in allowed:
        raise RuntimeError(
            f"{name} ends with status {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}"
        )
    return done


def berth(layout: Layout, module: str, *words: str | Path) -> tuple[list[str], dict[str, str]]:
    """Return the command of a program of Berth, and its variables with the credentials of the cloud."""
    config_file = layout.directory / "etc" / "nova" / "nova.conf"
    return [*map(str, (*command_of(module, config_file), *words))], {
        **environment_of_berth(),
        **layout.credentials(),
    }


def run_berth(layout: Layout, module: str, *words: str | Path, allowed: Collection[int] = (0,)) -> Done:
    """Run a program of Berth to its end; raises as ``run``."""
    command, variables = berth(layout, module, *words)
    return run(*command, variables=variables, allowed=allowed)
