"""berth-fake-compute: all computes of one cell as a process.

Serves topic ``compute`` on ``[DEFAULT]/transport_url``, the bus of the cell, and keeps the rows of the
compute nodes in ``[database]``, if there is one.
"""

from collections.abc import Iterator, Sequence
import sys

from oslo_config import cfg
import oslo_messaging as messaging
import sqlalchemy as sa

from conductor_client import fake_compute, journal, observers
from conductor_client.bus import Bus
from conductor_client.claims import Allocations, placement_adapter
from conductor_client.client import SchedulerClient
from conductor_client.cmd import life
from conductor_client.moving_compute import MovingCompute


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    return life.run("berth-fake-compute", _server, argv)


def _server(conf: cfg.ConfigOpts) -> messaging.MessageHandlingServer:
    own = conf.conductor_client
    bus, api_bus = Bus(conf), Bus(conf, own.api_transport_url)
    compute = MovingCompute(
        bus.client(journal.TOPIC, journal.VERSION),
        Allocations(placement_adapter(conf)),
        journal.Reporter(api_bus),
        fake_compute.Failures(own.fail_always, frozenset(own.fail_hosts), own.fail_rate, own.fail_seed),
        list(_observers(conf, api_bus)),
        own.build_seconds,
        own.cell,
    )
    return bus.server(fake_compute.TOPIC, conf.host, compute)


def _observers(
    conf: cfg.ConfigOpts, api_bus: Bus
) -> Iterator[observers.InstanceReports | observers.CellRows]:
    if conf.conductor_client.report_instances:
        yield observers.InstanceReports(SchedulerClient.from_conf(api_bus))
    if conf.database.connection:
        yield observers.CellRows(sa.create_engine(conf.database.connection))


if __name__ == "__main__":
    sys.exit(main())
