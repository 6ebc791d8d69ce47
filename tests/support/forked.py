"""Programs that are forked off a process that has imported what they import: they start in a tenth of the time.

A forked program is a process as any other: it has a session, signals and an exit status of its own.
"""

import multiprocessing
import os
import pathlib
import runpy
import sys

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.support.forked_imports"])


class ForkedProgram:
    """A Python program that runs, with the methods of ``subprocess.Popen`` that tests use.

    Attributes:
        pid: Its process ID.
        stdout: A text file to read what it prints.
    """

    def __init__(self, program, arguments, errors, environment):
        """Start a program; ``errors`` is the path of the file for its standard error."""
        pathlib.Path(errors).write_text("")
        read, write = _FORKING.Pipe(duplex=False)
        with read, write:
            self.stdout = os.fdopen(os.dup(read.fileno()))
            arguments = ([str(program), *map(str, arguments)], write, errors, os.environ | environment)
            self._process = _FORKING.Process(target=_run, args=arguments)
            self._process.start()
        self.pid = self._process.pid

    def poll(self):
        """Return the exit status; None while it runs."""
        return self._process.exitcode

    def wait(self):
        """Wait until it has ended, and return its exit status."""
        self._process.join()
        return self._process.exitcode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)


def _run(command, output, errors, environment):
    os.setsid()
    with output, pathlib.Path(errors).open("a") as log:
        os.dup2(output.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = command
    runpy.run_path(command[0], run_name="__main__")
