"""What an operator types and reads, printed and kept, with the places of files as they are in a cloud."""

from collections.abc import Mapping, Sequence
import os
from pathlib import Path
import re
import subprocess
import sys
import textwrap

from tools.rig.servers import path_of_servers
from tools.rig.service import ROOT

WIDTH = 118
#: Seconds that a command may take.
COMMAND_TIMEOUT = 900

#: Programs of ours.
PROGRAMS = "berth-status", "berth-explain"


class Transcript:
    """Prints steps; ``text`` has all that was printed."""

    #: Exit status of a command that is an answer.
    answers = (0, 1)

    def __init__(
        self,
        places: Mapping[str, str],
        environment: Mapping[str, str],
        shell: Sequence[str] = ("bash", "-o", "pipefail", "-c"),
    ) -> None:
        """Begin.

        Args:
            places: What to show instead of a text, such as the path of a temporary directory.
            environment: Variables of the commands, besides those of this process.
            shell: What runs a line.
        """
        self.text = ""
        self._places = places
        self._shell = shell
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment, "PATH": path_of_servers()}

    def step(self, title: str) -> None:
        """Begin a step."""
        self._print(f"\n== {title}\n")

    def say(self, line: str) -> None:
        """Tell what happens beside the commands."""
        self._print(textwrap.fill(f"# {line}", WIDTH, subsequent_indent="# ") + "\n")

    def command(self, line: str) -> None:
        """Show a command that is not run here as it is typed."""
        self._print(f"$ {line}\n")

    def run(self, line: str, *, lines: slice = slice(None)) -> None:
        """Run a command by the shell, and show it with the chosen lines of its output.

        Raises:
            RuntimeError: It fails in a way that is not an answer.
        """
        done = subprocess.run(
            [*self._shell, self._real(line)],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_TIMEOUT,
        )
        self.command(line)
        output = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        for each in output[lines]:
            self._print(self._wrapped(self._shown(each)))
        if done.returncode not in self.answers:
            raise RuntimeError(f"{line} ended with status {done.returncode}: {done.stderr[-2000:]}")

    def _print(self, text: str) -> None:
        self.text += text
        sys.stdout.write(text)
        sys.stdout.flush()

    def _real(self, line: str) -> str:
        for place, shown in self._places.items():
            line = line.replace(shown, place)
        for name in PROGRAMS:
            command = f"{sys.executable} -W ignore -m scheduler.operators.programs {name}"
            line = re.sub(rf"^{name}\b", command, line)
        return line

    def _shown(self, line: str) -> str:
        for place, shown in self._places.items():
            line = line.replace(place, shown)
        return line.rstrip()

    @staticmethod
    def _wrapped(line: str) -> str:
        if len(line) <= WIDTH or line.startswith(("|", "+")):
            return line + "\n"
        return textwrap.fill(line, WIDTH, subsequent_indent="    ", break_on_hyphens=False) + "\n"

    def write(self, path: Path) -> None:
        """Keep what was printed."""
        path.write_text(self.text.lstrip("\n"))
