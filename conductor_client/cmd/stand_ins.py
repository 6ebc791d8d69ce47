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

from conductor_client import fake_compute, journal
from conductor_client.bus import Bus
from conductor_client.cell_conductor import CellConductor
from conductor_client.cell_rows import CellRows
from conductor_client.cells import Cell, CellMap, client_of_each_cell
from conductor_client.claims import Allocations
from conductor_client.client import SchedulerClient
from conductor_client.fake_compute import Failures, FakeCompute
from conductor_client.journal import Journal, Reporter
from conductor_client.move_conductor import MoveConductor
from conductor_client.super_conductor import SuperConductor
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
    servers = _of_cell(conf) if conf.conductor_client.cell else [_super_conductor(conf)]
    for server in servers:
        server.start()
    print(f"{conf.conductor_client.cell or 'The super-conductor'} is ready", flush=True)
    signal.sigwait(stop)
    for server in servers:
        server.stop()
        server.wait()
    return 0


def _super_conductor(conf: cfg.ConfigOpts) -> messaging.MessageHandlingServer:
    bus, records = Bus(conf), Journal()
    cells = CellMap(sa.create_engine(conf.api_database.connection), conf.transport_url)
    scheduler = SchedulerClient.from_conf(bus)

    def open_bus(cell: Cell) -> Bus:
        return Bus(conf, cell.transport_url)

    return bus.server(
        journal.TOPIC,
        conf.host,
        SuperConductor(scheduler, cells, client_of_each_cell(open_bus, journal.TOPIC), records),
        MoveConductor(
            scheduler,
            cells,
            client_of_each_cell(open_bus, fake_compute.TOPIC),
            Allocations.from_conf(conf),
            records,
            conf.scheduler.max_attempts,
        ),
    )


def _of_cell(conf: cfg.ConfigOpts) -> list[messaging.MessageHandlingServer]:
    own = conf.conductor_client
    bus, api_bus = Bus(conf), Bus(conf, own.api_transport_url)
    allocations, reports = Allocations.from_conf(conf), Reporter(api_bus, own.cell)
    computes = bus.client(fake_compute.TOPIC, journal.VERSION)
    compute = FakeCompute(
        bus.client(journal.TOPIC, journal.VERSION),
        allocations,
        reports,
        SchedulerClient.from_conf(api_bus),
        CellRows(sa.create_engine(conf.database.connection)),
        Failures(frozenset(own.fail_hosts), own.fail_rate, own.fail_seed),
    )
    conductor = CellConductor(computes, allocations, reports, conf.scheduler.max_attempts)
    return [
        bus.server(fake_compute.TOPIC, conf.host, compute),
        bus.server(journal.TOPIC, conf.host, conductor),
    ]


if __name__ == "__main__":
    sys.exit(main())
