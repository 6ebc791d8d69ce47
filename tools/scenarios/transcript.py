"""What an operator types and reads, printed and kept."""

from collections.abc import Sequence
import os
from pathlib import Path
import subprocess
import sys
import textwrap

from tools.rig.servers import path_of_servers

WIDTH = 118
#: Seconds that a command may take.
COMMAND_TIMEOUT = 900


class Transcript:
    """Prints steps; ``text`` has all that was printed."""

    #: Exit status of a command that is an answer.
    answers = (0, 1)

    def __init__(self, shell: Sequence[str] = ("bash", "-o", "pipefail", "-c")) -> None:
        """Begin; ``shell`` is what runs a line."""
        self.text = ""
        self._shell = shell

    def step(self, title: str) -> None:
        """Begin a step."""
        self._print(f"\n== {title}\n")

    def say(self, line: str) -> None:
        """Tell what happens beside the commands."""
        self._print(textwrap.fill(f"# {line}", WIDTH, subsequent_indent="# ") + "\n")

    def run(self, line: str, *, lines: slice = slice(None)) -> None:
        """Run a command by the shell, and show it with the chosen lines of its output.

        Raises:
            RuntimeError: It fails in a way that is not an answer.
        """
        done = subprocess.run(
            [*self._shell, line],
            env={**os.environ, "PATH": path_of_servers()},
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_TIMEOUT,
        )
        self._print(f"$ {line}\n")
        output = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        for each in output[lines]:
            self._print(self._wrapped(each.rstrip()))
        if done.returncode not in self.answers:
            raise RuntimeError(f"{line} ended with status {done.returncode}: {done.stderr[-2000:]}")

    def _print(self, text: str) -> None:
        self.text += text
        sys.stdout.write(text)
        sys.stdout.flush()

    @staticmethod
    def _wrapped(line: str) -> str:
        if len(line) <= WIDTH or line.startswith(("|", "+")):
            return line + "\n"
        return textwrap.fill(line, WIDTH, subsequent_indent="    ", break_on_hyphens=False) + "\n"

    def write(self, path: Path) -> None:
        """Keep what was printed."""
        path.write_text(self.text.lstrip("\n"))
