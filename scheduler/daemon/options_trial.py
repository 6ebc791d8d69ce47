"""Tries changed options in a process of their own: ``--check-config`` with the command line of this one."""

from collections.abc import Sequence
import signal
import subprocess
import sys

from oslo_config import cfg

from scheduler import errors

#: Seconds in which options must be checked; otherwise they are refused.
TRIAL_TIMEOUT = 20

#: Seconds for the start of the check and its end, besides.
TIME_TO_END = 10


def try_options(conf: cfg.ConfigOpts, command: Sequence[str] | None = None) -> None:
    """Check that the daemon could start with the files as they are now.

    Operators' rules are loaded for that. They must not stay in the daemon, nor be able to end or block it. A
    logging configuration with a mistake would leave its process without a log.

    Args:
        conf: The changed options; they have the name of the program.
        command: What starts the program; None: what has started this process.

    Raises:
        ConfigError: The daemon could not; the text says why.
    """
    command = [sys.executable, *sys.orig_argv[1:]] if command is None else command
    try:
        done = subprocess.run(  # noqa: S603 - what has started this process
            [*command, "--check-config"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
            timeout=TRIAL_TIMEOUT + TIME_TO_END,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise errors.ConfigError(f"no process can be started to try the options: {error}") from error
    except subprocess.TimeoutExpired:
        raise errors.ConfigError("the check of the options did not end") from None
    if done.returncode == -signal.SIGALRM:
        raise errors.ConfigError(f"no result within {TRIAL_TIMEOUT:g} seconds")
    if done.returncode < 0:
        raise errors.ConfigError("the rules ended the process in which they were loaded")
    if done.returncode:
        name = f"{conf.prog}: "
        findings = [line.removeprefix(name) for line in done.stderr.splitlines() if line.startswith(name)]
        raise errors.ConfigError(*findings or [f"the check of the options ended with {done.returncode}"])
