"""berth-scheduler: the daemon (spec: wire-and-config 7.1-7.3).

Exit status: 0 after SIGTERM or a successful --check-config, 1 if it cannot start or was interrupted, 2 for an
unknown argument, 3 if the API database could not be read in time, 4 if --check-config --strict has warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
import logging
from pathlib import Path
import signal
import sys
from typing import TYPE_CHECKING, Any
import warnings

from oslo_service import backend

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

    from scheduler.daemon.service import ServiceParts

FAILED = 1

#: The names under which the program may be installed. Tools that look for nova-scheduler find the second one.
PROGRAMS = ("berth-scheduler", "nova-scheduler", "berth-router")


# of the logger; __name__ is __main__ when the module is run
NAME = "nova.scheduler.cmd.scheduler"


def main(
    argv: Sequence[str] | None = None, make_parts: Callable[[ConfigOpts], ServiceParts] | None = None
) -> int | None:
    """Run the daemon.

    Args:
        make_parts: Returns the parts of a service that is no scheduler; None: those of a scheduler.

    Returns:
        The exit status.
    """
    # futurist imports eventlet if it is installed; it is not used
    warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
    # before oslo.messaging is imported, which would choose eventlet
    backend.init_backend(backend.BackendType.THREADING)
    from scheduler import errors

    argv = sys.argv[1:] if argv is None else argv
    with _hangups_waiting():
        try:
            conf = read_options(argv, needs_databases=make_parts is None)
            if conf.check_config:
                from scheduler.cmd import check_config

                return check_config.check(conf, make_parts or parts)
            report = prepare(conf)
        except errors.ConfigError as error:
            for finding in error.findings:
                print(f"{program_name()}: {finding}", file=sys.stderr)
            return FAILED
        return _serve(conf, argv, make_parts or parts, report)


@contextmanager
def _hangups_waiting() -> Iterator[None]:
    """Let a SIGHUP wait until the service handles it; before that it would end the process."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def read_options(argv: Sequence[str], *, needs_databases: bool = True) -> ConfigOpts:
    """Parse the command line and the files.

    Raises:
        ConfigError: The options cannot be used.
    """
    from scheduler import conf as options
    from scheduler.version import version

    conf = options.load(argv, program_name(), version=version())
    if needs_databases:
        options.require_databases(conf)
    return conf


def prepare(conf: ConfigOpts) -> Any:
    """Set up logging and the report handler; return the class of the report.

    Raises:
        ConfigError: The options cannot be used.
    """
    from oslo_concurrency import lockutils

    from scheduler.conf.log_output import set_up_logging
    from scheduler.daemon import guru_meditation

    set_up_logging(conf)
    lockutils.set_defaults(conf.oslo_concurrency.lock_path)
    return guru_meditation.install(conf)


def program_name() -> str:
    """Return the name under which the program was started, if it is one of ours."""
    name = Path(sys.argv[0]).name
    return name if name in PROGRAMS else PROGRAMS[0]


def parts(_conf: ConfigOpts) -> ServiceParts:
    """Return the parts of a scheduler; they are imported here, after threads were chosen."""
    from scheduler.cmd import scheduler_parts

    return scheduler_parts.all_parts()


def _serve(
    conf: ConfigOpts, argv: Sequence[str], make_parts: Callable[[ConfigOpts], ServiceParts], report: Any
) -> int:
    from oslo_log import log

    from scheduler import conf as options
    from scheduler import errors
    from scheduler.conf import derived
    from scheduler.daemon.service import Service
    from scheduler.version import version

    logger = log.getLogger(NAME)
    logger.info("%s %s starts as %s", program_name(), version(), conf.host)
    for remark in derived.lost_log(conf):
        print(f"{program_name()}: {remark}", file=sys.stderr)
    if conf.log_options:
        conf.log_opt_values(logger, logging.DEBUG)
    try:
        options.check_files(conf)
        made = make_parts(conf)
        service = Service(conf, argv, made)
    except errors.ConfigError as error:
        logger.error("%s", error)
        return FAILED
    for remark in options.remarks(conf):
        logger.warning(remark)
    report.register_section(
        "Requests in progress", lambda: "\n".join(map(str, service.read_state().requests)) or "none"
    )
    return service.run()


if __name__ == "__main__":
    sys.exit(main())
