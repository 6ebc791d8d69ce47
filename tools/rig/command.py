"""The command lines of the scenarios: what several of them have, and the directory of a run."""

import argparse
from collections.abc import Iterator
import contextlib
import logging
import math
from pathlib import Path
import tempfile
from typing import Any

from tools.rig import servers
from tools.rig.service import ROOT

SOFTWARE = ROOT / ".venv" / "side-by-side"
#: Systems of Debian and what is built in them, kept from run to run.
MACHINES = ROOT / ".venv" / "machines"

#: The options that several scenarios have; each has a default of its own, or none.
SHARED = {
    "hosts": "compute hosts",
    "cells": "cells over which the hosts are spread",
    "callers": "callers at the same time",
    "seconds": "seconds of load",
    "minutes": "end after this time at the latest",
    "seed": "determines what is random, but not the order of threads",
    "output": "what is written, without a suffix or as a directory",
    "directory": "where to keep databases and logs (default: temporary)",
    "software": "virtual environment with nova and Placement, which is made if need be",
}


class Parser(argparse.ArgumentParser):
    """A parser of a scenario's command line, which shows the defaults of its options."""

    def __init__(self, program: str, description: str | None) -> None:
        super().__init__(program, description=description, formatter_class=_Defaults)

    def add(self, name: str, default: Any, text: str, **more: Any) -> None:
        """Add an option that has the type of its default."""
        if not isinstance(default, list) and default is not None:
            more.setdefault("type", type(default))
        self.add_argument(name, default=default, help=text, **more)

    def share(self, **defaults: Any) -> None:
        """Add options of ``SHARED`` with these defaults; one without a default is a path."""
        for name, default in defaults.items():
            self.add(f"--{name}", default, SHARED[name], **({"type": Path} if default is None else {}))

    def bound(self, options: argparse.Namespace, **bounds: tuple[float, float]) -> None:
        """Refuse options that are not between their bounds."""
        for name, (least, most) in bounds.items():
            value = getattr(options, name)
            if not least <= value <= most:
                limits = f"at least {least}" if most == math.inf else f"from {least} to {most}"
                self.error(f"argument --{name.replace('_', '-')}: {value} is not {limits}")


class _Defaults(argparse.RawDescriptionHelpFormatter):
    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        shown = action.default not in (None, argparse.SUPPRESS, False, []) and "%(default)" not in text
        return f"{text} (default: %(default)s)" if shown else text


@contextlib.contextmanager
def running(name: str, directory: Path | None = None, level: int = logging.ERROR) -> Iterator[Path]:
    """Give the directory of a run; a temporary one is removed in the end, as are all servers on SIGTERM."""
    logging.basicConfig(level=level)
    servers.stop_on_sigterm()
    if directory:
        directory.mkdir(parents=True, exist_ok=True)
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix=f"berth-{name}-") as temporary:
        yield Path(temporary)
