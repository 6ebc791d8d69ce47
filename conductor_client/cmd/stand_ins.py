"""The stand-ins as a process: the super-conductor or, with ``[conductor_client]/cell``, those of a cell.

On ``[DEFAULT]/transport_url`` it serves topic ``conductor`` and in a cell topic ``compute`` too. The
super-conductor finds the cells in ``[api_database]``; the computes write their rows to ``[database]``.

Exit status: 0 after SIGTERM, 1 if it cannot start, 2 for an unknown argument.
"""

from collections.abc import Sequence
import signal
import sys

from oslo_concurrency import lockutils
from oslo_config import cfg
from oslo_log import log as logging
import oslo_messaging as messaging
import sqlalchemy as sa

from conductor_client import servers
from conductor_client.bus import Bus
from conductor_client.fake_compute import Failures
from conductor_client.journal import Journal
from scheduler import conf as options
from scheduler import errors

OPTS = [
    cfg.StrOpt("cell", help="Name of the cell; without one the process is the super-conductor."),
    cfg.StrOpt(
        "api_transport_url",
        secret=True,
        help="Message bus of the super-conductor and the scheduler, to which a cell sends its reports; "
        "[DEFAULT]/transport_url is the bus of the cell.",
    ),
    cfg.ListOpt("fail_hosts", default=[], help="Service hosts on which every build fails."),
    cfg.FloatOpt("fail_rate", default=0.0, min=0.0, max=1.0, help="Share of builds that fail."),
    cfg.IntOpt(
        "fail_seed",
        default=0,
        help="Seed that selects these builds: same seed, instance and host, same result.",
    ),
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; requests in progress are finished. Return the exit status.

    It prints a line when it is ready.
    """
    try:
        conf = options.load(sys.argv[1:] if argv is None else argv, prog="berth-stand-ins")
    except errors.ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    conf.register_opts(OPTS, group="conductor_client")
    logging.setup(conf, "berth-stand-ins")
    # oslo.messaging keeps the names of its queues there, if it is configured to
    lockutils.set_defaults(conf.oslo_concurrency.lock_path)
    stop = {signal.SIGTERM, signal.SIGINT}
    # threads inherit the mask, so that only sigwait receives the signals
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    running = _servers(conf)
    for server in running:
        server.start()
    print(f"{conf.conductor_client.cell or 'The super-conductor'} is ready", flush=True)
    signal.sigwait(stop)
    for server in running:
        servers.stop(server)
    return 0


def _servers(conf: cfg.ConfigOpts) -> list[messaging.MessageHandlingServer]:
    own, bus = conf.conductor_client, Bus(conf)
    if own.cell:
        rows = sa.create_engine(conf.database.connection)
        failures = Failures(frozenset(own.fail_hosts), own.fail_rate, own.fail_seed)
        return servers.of_cell(conf, bus, Bus(conf, own.api_transport_url), own.cell, rows, failures)
    engine = sa.create_engine(conf.api_database.connection)
    return [servers.super_conductor(conf, engine, bus, lambda cell: Bus(conf, cell.transport_url), Journal())]


if __name__ == "__main__":
    sys.exit(main())
