"""Tries in a child process whether changed options can work: their logging is set up, and a manager built."""

from collections.abc import Callable
import logging.config
import signal
from typing import Any

from oslo_config import cfg

from scheduler import errors

#: Seconds in which a manager must be built from changed options; otherwise they are refused.
TRIAL_TIMEOUT = 20.0

#: Seconds after which a trial ends itself, above those after which it is ended: the master may have died.
TIME_TO_END = 1.0


def try_in_child(
    context: Any, build: Callable[[cfg.ConfigOpts], Any], conf: cfg.ConfigOpts, timeout: float = TRIAL_TIMEOUT
) -> None:
    """Check in a child process that changed options can work.

    Operators' rules are imported for that. They must not stay in the master, from which later workers are
    forked, nor be able to end or block it. A logging configuration with a mistake would leave its process
    without a log.

    Args:
        timeout: Seconds that this may take.

    Raises:
        ConfigError: They cannot; the text says why.
    """
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_build_and_report, args=(build, conf, sender, timeout), daemon=True)
    try:
        child.start()
    except OSError as error:
        receiver.close()
        raise errors.ConfigError(f"no process can be started to try the options: {error}") from error
    finally:
        sender.close()
    try:
        findings = receiver.recv() if receiver.poll(timeout) else (f"no result within {timeout:g} seconds",)
    except EOFError:
        findings = ("the rules ended the process in which they were loaded",)
    finally:
        child.kill()
        child.join()
        receiver.close()
    if findings:
        raise errors.ConfigError(*findings)


def _build_and_report(
    build: Callable[[cfg.ConfigOpts], Any], conf: cfg.ConfigOpts, sender: Any, timeout: float
) -> None:
    # the handlers of the master would pass signals on to it
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    # Workers notice the end of the master by a pipe, which this process has inherited.
    signal.setitimer(signal.ITIMER_REAL, timeout + TIME_TO_END)
    try:
        _set_up_logging(conf)
        build(conf)
    except errors.ConfigError as error:
        findings = error.findings
    except errors.BerthError as error:
        findings = (str(error),)
    except BaseException as error:  # noqa: BLE001 - a rule of an operator may raise anything
        findings = (f"{type(error).__name__}: {error}",)
    else:
        findings = ()
    sender.send(findings)


def _set_up_logging(conf: cfg.ConfigOpts) -> None:
    path = conf.log_config_append
    if not path:
        return
    try:
        logging.config.fileConfig(path, disable_existing_loggers=False)
    except Exception as error:
        raise errors.ConfigError(f"[DEFAULT]/log_config_append: {path}: {error}") from error
