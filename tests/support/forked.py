"""Programs that are forked off a process that has imported what they import: they start in a tenth of the time.

A forked program is a process as any other: it has a session, signals and an exit status of its own.
"""

import contextlib
import ctypes
import multiprocessing
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time

from tools.rig import service
from tools.rig.service import ROOT

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.support.forked_imports"])

#: Packages of which modules are run by ``python -m`` in tests, and are imported before the fork.
PACKAGES = ("scheduler.cmd.", "conductor_client.cmd.", "tools.rig.")

SET_DEATH_SIGNAL = 1  # of prctl(2)


class ForkedProgram:
    """A Python program that runs, with the methods of ``subprocess.Popen`` that tests use.

    Attributes:
        pid: Its process ID, which is that of its session and process group, too.
        stdout: A text file to read what it prints; None if that goes to the file of its errors.
    """

    def __init__(self, words, errors, environment, *, piped=False):
        """Start a program.

        Args:
            words: The path of the program, ``-m`` and its module, or ``-c`` and its text; then its arguments.
            errors: The path of the file to which its standard error is appended, and what it prints.
            environment: Its variables.
            piped: Whether what it prints goes to ``stdout`` instead.
        """
        self.stdout = None
        self._words = [str(word) for word in words]
        if piped:
            read, write = _FORKING.Pipe(duplex=False)
            with read, write:
                self.stdout = os.fdopen(os.dup(read.fileno()))
                self._start(write, errors, environment)
        else:
            self._start(None, errors, environment)

    def _start(self, output, errors, environment):
        arguments = (self._words, output, str(errors), dict(environment))
        self._process = _FORKING.Process(target=_run, args=arguments)
        self._process.start()
        self.pid = self._process.pid
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            while os.getpgid(self.pid) != self.pid:
                time.sleep(0.001)

    def poll(self):
        """Return the exit status; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout=None):
        """Wait until it has ended, and return its exit status."""
        self._process.join(timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired(self._words, timeout)
        return self.poll()

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)


def launch(command, log, environment, user=None):
    """Start a service as ``tools.rig.service.launch`` does, but fork it if it is one of our programs."""
    python, *words = command
    words = words[words[:2] == ["-W", "ignore"] and 2 :]
    ours = python == sys.executable and not user and words[0] == "-m" and words[1].startswith(PACKAGES)
    if ours and "LD_PRELOAD" not in (environment or {}):
        return ForkedProgram(words, log, os.environ if environment is None else environment)
    return service.launch(command, log, environment, user)


def run(*words, timeout=100):
    """Run a program to its end, as ``subprocess.run`` does; ``timeout`` is in seconds and ends what hangs."""
    with Running(*words) as started:
        output, errors = started.communicate(timeout)
    return subprocess.CompletedProcess(words, started.poll(), output, errors)


class Running(ForkedProgram):
    """A program that runs beside the test; a context manager, which kills it if it still runs.

    Attributes:
        printed: What it has printed so far.
    """

    def __init__(self, *words):
        self._directory = tempfile.TemporaryDirectory()
        self._errors = pathlib.Path(self._directory.name, "errors")
        super().__init__(words, self._errors, service.environment_of_berth(), piped=True)
        self.printed = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.stdout:
            self.printed += line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self._directory, self.stdout:
            self.send_signal(signal.SIGKILL)
            self._reader.join()
            self.wait()

    def communicate(self, timeout):
        """Wait until it has ended; returns what it has printed, and its standard error."""
        self.wait(timeout)
        self._reader.join()
        return self.printed, self._errors.read_text()


def _run(words, output, errors, environment):
    with pathlib.Path(errors).open("a") as log:
        os.dup2(log.fileno(), 2)
        os.dup2((output or log).fileno(), 1)
    if output:
        output.close()
    # Those of the process that forks know where its output went
    sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, closefd=False) for number in (1, 2))
    os.setsid()
    # it ends with the process that forks, and so with the tests
    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environment)
    sys.orig_argv = [sys.executable, *words]
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        exec(words[1], {"__name__": "__main__"})
    elif words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")
