"""Services in processes of their own."""

from collections.abc import Callable, Container, Mapping, Sequence
import contextlib
import os
from pathlib import Path
import signal
import subprocess
import sys
import time
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT = 60  # seconds until a service answers
STOP_TIMEOUT = 60  # seconds until a stopped service has ended
#: The exit statuses of all programs: what they say is an answer.
ANY = range(-64, 256)
COMMAND_TIMEOUT = 1800  # seconds until a program has ended that is run to its end


def launch(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None, user: str | None = None
) -> subprocess.Popen[bytes]:
    """Start a service whose output is appended to a file, in a session of its own."""
    with log.open("a") as output:
        return subprocess.Popen(
            command,
            cwd="/" if user else ROOT,  # another user may not be able to read the checkout
            user=user,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # the scheduler signals all of its process group
        )


class ServiceProcess:
    """A service in processes of its own, with its output in a file.

    Attributes:
        log: The file that has the output of all its lives.
    """

    #: How one is started; tests replace it.
    launch = staticmethod(launch)

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> None:
        """Describe a service; ``start`` runs it.

        Args:
            command: The program and its arguments.
            log: Where its output is appended.
            environment: Its variables; None: those of this process.
            user: The user of the operating system to run as; None: that of this process.
        """
        self.log = log
        self._command = [str(word) for word in command]
        self._environment = environment
        self._user = user
        self._process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        """The process ID of the first process."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it was started, and has not ended."""
        return hasattr(self, "_process") and self.status is None

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.poll()

    def start(self) -> None:
        """Start it, also again."""
        self._process = self.launch(self._command, self.log, self._environment, self._user)

    def signal(self, number: int) -> None:
        """Send a signal to the first process."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill all its processes at once, as the kernel or a service manager does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """Stop it as systemd does, and return its exit status."""
        if self.status is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()

    def text(self) -> str:
        """Return the output of all its lives."""
        return self.log.read_text()

    def wait_for_line(self, words: str, timeout: float = START_TIMEOUT, times: int = 1) -> None:
        """Wait until its output has these words, so many times in all its lives; raises as ``wait_until``."""
        self.wait_until(
            lambda: self.text().count(words) >= times,
            f"{self.log.stem} does not say {words!r}",
            timeout,
        )

    def wait_until(
        self, condition: Callable[[], bool], complaint: str, timeout: float = START_TIMEOUT
    ) -> None:
        """Wait until a condition holds.

        Raises:
            RuntimeError: It has ended, or the time is over; the text has the complaint, and the end of the
                output.
        """
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline or self.status is not None:
                end = self.text()[-2000:]
                raise RuntimeError(f"{complaint}; its log ends with:\n{end}")
            time.sleep(0.1)


def until(condition: Callable[[], bool], complaint: str, seconds: float) -> float:
    """Wait until a condition holds, and return how long it took.

    Raises:
        RuntimeError: The time is over.
    """
    started = time.monotonic()
    while not condition():
        if time.monotonic() > started + seconds:
            raise RuntimeError(complaint)
        time.sleep(0.2)
    return time.monotonic() - started


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    allowed: Container[int] = (0,),
    timeout: float = COMMAND_TIMEOUT,
    stderr: int = subprocess.PIPE,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end.

    Raises:
        RuntimeError: It ends with another status than those allowed, or not in time; the text has the end of
            its output.
    """
    name = " ".join(map(str, command))
    try:
        done = subprocess.run(
            list(map(str, command)),
            cwd=cwd,
            env=environment,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{name} does not end in {timeout:.0f} s") from None
    if done.returncode not in allowed:
        output = (done.stdout + (done.stderr or ""))[-3000:]
        raise RuntimeError(f"{name} ended with {done.returncode}:\n{output}")
    return done


def run_program(
    command: Sequence[str | Path],
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    allowed: Container[int] = (0,),
) -> str:
    """Run a program to its end, and return all that it prints; raises as ``run``."""
    options: Any = {"cwd": cwd, "environment": environment, "allowed": allowed}
    return run(command, stderr=subprocess.STDOUT, **options).stdout


def command_of(module: str, config_file: Path) -> Sequence[str | Path]:
    """Return the command of a program of Berth: a module, and the name of the program if that has several."""
    return [sys.executable, "-W", "ignore", "-m", *module.split(), "--config-file", config_file]


def environment_of_berth() -> dict[str, str]:
    """Return the environment in which a program of Berth finds this checkout."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}
