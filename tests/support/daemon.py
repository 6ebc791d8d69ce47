"""A daemon as a process of its own, its parts replaced by those of ``daemon_process.py``."""

import collections
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import time

from tests.support.forked import ForkedProgram

PROGRAM = pathlib.Path(__file__).with_name("daemon_process.py")

COMMON = "[DEFAULT]\nuse_stderr=true\n[api_database]\nconnection=sqlite://\n"


class Daemon:
    """A running daemon; ``expect`` reads on in what it told until a line matches.

    It is forked, unless ``command`` is given, which starts it as it is installed.
    """

    def __init__(self, path, text, environment, command=None):
        self.config = path / "nova.conf"
        self.config.write_text(f"{COMMON}\n{text}")
        self.errors = path / "stderr"
        self.told = collections.deque()
        arguments = ["--config-file", str(self.config)]
        if command:
            self.process = self._started([*command, *arguments], environment)
        else:
            self.errors.write_text("")
            variables = os.environ | environment
            self.process = ForkedProgram([PROGRAM, *arguments], self.errors, variables, piped=True)

    def _started(self, command, environment):
        with self.errors.open("w") as log:
            # a group of its own, which ``kill`` ends with what the daemon has started
            return subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | environment,
                text=True,
                start_new_session=True,
            )

    def expect(self, pattern, times=1):
        """The matches of so many lines. Lines that do not match are kept: processes tell theirs in any order."""
        matches, others = [], []
        while len(matches) < times:
            line = self.told.popleft() if self.told else self._next()
            match = re.fullmatch(pattern, line)
            if match:
                matches.append(match)
            else:
                others.append(line)
        self.told.extendleft(reversed(others))
        return matches

    def expect_log(self, text):
        """Wait until the log has a text."""
        while text not in self.errors.read_text():
            assert self.process.poll() is None, (
                f"the daemon has ended; its log says:\n{self.errors.read_text()}"
            )
            time.sleep(0.01)

    def _next(self):
        line = self.process.stdout.readline()
        assert line, f"the daemon has ended; its log says:\n{self.errors.read_text()}"
        return line.rstrip("\n")

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        """Exit status, and what was told since the last ``expect`` read on."""
        rest = self.process.stdout.read()
        return self.process.wait(), rest.splitlines()

    def kill(self):
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
