"""berth-scheduler: the daemon (spec: wire-and-config 7.1-7.3).

Exit status: 0 after SIGTERM, 1 if it cannot start or was interrupted, 2 for an unknown argument, 3 if the API
database could not be read in time.
"""

import logging
import sys
import warnings

from oslo_service import backend

FAILED = 1

# Of the logger; __name__ is another one when the module is run
NAME = "scheduler.cmd.scheduler"


def main(argv=None):
    """Run the daemon; returns its exit status. ``argv`` is the command line without the program's name."""
    # A library imports eventlet where it finds it, though nobody here uses it
    warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
    # To be settled before anything imports oslo.messaging, which would choose eventlet
    backend.init_backend(backend.BackendType.THREADING)
    from scheduler import errors

    argv = sys.argv[1:] if argv is None else argv
    try:
        conf = prepare(argv)
    except errors.ConfigError as error:
        print(f"berth-scheduler: {error}", file=sys.stderr)
        return FAILED
    return _serve(conf, argv)


def prepare(argv):
    """Parse the command line, set up logging and the report handler; returns the options.

    Raises ``ConfigError``.
    """
    from oslo_concurrency import lockutils

    from scheduler import conf as options
    from scheduler import reports
    from scheduler.version import version

    conf = options.load(argv, version=version())
    options.require_databases(conf)
    set_up_logging(conf)
    lockutils.set_defaults(conf.oslo_concurrency.lock_path)
    reports.install(conf)
    return conf


def set_up_logging(conf):
    """Send log records to where the options say, each message on one line.

    Raises:
        ConfigError: The file of log_config_append cannot be used.
    """
    from oslo_log import log

    from scheduler import errors, logs
    from scheduler.version import version

    try:
        log.setup(conf, "berth", version())
    except log.LogConfigError as error:
        raise errors.ConfigError(f"Logging cannot be set up: {error}") from error
    logging.setLogRecordFactory(logs.OneLineRecord)


def parts():
    """The real parts of a worker.

    Imported here: after threads were chosen, and before the workers are forked, which thus share the code.
    """
    from scheduler.cmd import worker_parts

    return worker_parts.all_parts()


def _serve(conf, argv):
    from oslo_log import log

    from scheduler import conf as options
    from scheduler import service
    from scheduler.version import version

    logger = log.getLogger(NAME)
    logger.info(
        "berth-scheduler %s starts as %s with %d workers", version(), conf.host, options.worker_count(conf)
    )
    for remark in options.remarks(conf):
        logger.warning(remark)
    if conf.log_options:
        conf.log_opt_values(logger, logging.DEBUG)
    return service.Daemon(conf, argv, parts()).run()


if __name__ == "__main__":
    sys.exit(main())
