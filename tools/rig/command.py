"""What the commands of the scenarios have in common."""

import argparse
from collections.abc import Iterator
import contextlib
import logging
from pathlib import Path
import tempfile
from typing import Any

from tools.rig import servers
from tools.rig.service import ROOT

SOFTWARE = ROOT / ".venv" / "side-by-side"


class Parser(argparse.ArgumentParser):
    """A parser of a scenario's command line, which shows the defaults of its options."""

    def __init__(self, program: str, description: str | None) -> None:
        """Name the program and say what it does."""
        super().__init__(program, description=description, formatter_class=_Defaults)

    def add(self, name: str, default: Any, text: str, **more: Any) -> None:
        """Add an option that has the type of its default."""
        if not isinstance(default, list) and default is not None:
            more.setdefault("type", type(default))
        self.add_argument(name, default=default, help=text, **more)

    def add_seed(self) -> None:
        """Add ``--seed``."""
        self.add("--seed", 1, "determines what is random, but not the order of threads")

    def add_directory(self) -> None:
        """Add ``--directory``."""
        self.add("--directory", None, "where to keep databases and logs (default: temporary)", type=Path)

    def add_software(self) -> None:
        """Add ``--software``."""
        self.add("--software", SOFTWARE, "virtual environment to use; it is made if need be")


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
