"""berth-scheduler: the daemon. Spec: wire-and-config 7.1 to 7.3.

Exit status: 0 after SIGTERM, 1 if it cannot start or was interrupted, 2 for an unknown argument.
"""

import logging
import random
import sys

from oslo_service import backend

FAILED = 1


def main(argv=None):
    """Run the daemon; returns its exit status. ``argv`` is the command line without the program's name."""
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

    Raises errors.ConfigError.
    """
    from oslo_concurrency import lockutils
    from oslo_log import log

    from scheduler import conf as options
    from scheduler import errors, reports
    from scheduler.version import version

    conf = options.load(argv, version=version())
    options.require_databases(conf)
    try:
        log.setup(conf, "berth", version())
    except log.LogConfigError as error:
        raise errors.ConfigError(f"Logging cannot be set up: {error}") from error
    lockutils.set_defaults(conf.oslo_concurrency.lock_path)
    reports.install(conf)
    return conf


def parts():
    """The real parts of a worker; they are imported here, after threads were chosen."""
    from scheduler import service

    return service.Parts(manager=_manager, server=_server, periodics=_periodics)


def _manager(conf):
    from scheduler import manager

    return manager.SchedulerManager(conf, _notifications(conf))


def _notifications(conf):
    from scheduler.rpc import notifications, serializer, transport

    if not conf.oslo_messaging_notifications.driver:
        return None
    bus = transport.notification_transport(conf)
    return notifications.build(conf, bus, serializer.ObjectSerializer())


def _server(conf, manager):
    from scheduler.rpc import server, transport

    return server.build(conf, transport.rpc_transport(conf), manager)


def _periodics(conf, manager):
    """Heartbeats of the daemon's row among nova's services, and host discovery where it is wanted."""
    from scheduler import conf as options
    from scheduler import service
    from scheduler.hosts import discovery, own_service

    engines = manager.hosts.engines
    row = own_service.OwnService(conf, engines)
    row.beat()
    if conf.report_interval > 0:
        yield service.Periodic("heartbeat", row.beat, conf.report_interval, own_service.FIRST_BEAT)
    interval = discovery.interval(conf)
    if interval and conf.periodic_enable:
        finder = discovery.Discovery(conf, engines, options.service_down_time(conf))
        delay = random.uniform(0, conf.periodic_fuzzy_delay)
        yield service.Periodic("host discovery", finder.run, interval, delay)


def _serve(conf, argv):
    from oslo_log import log

    from scheduler import conf as options
    from scheduler import service
    from scheduler.version import version

    logger = log.getLogger(__name__)
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
