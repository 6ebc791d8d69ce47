"""berth-super-conductor: the super-conductor stand-in as a process.

Serves topic ``conductor`` on ``[DEFAULT]/transport_url``; the cells are those of ``[api_database]``.
"""

from collections.abc import Sequence
import sys

from oslo_config import cfg
import oslo_messaging as messaging
import sqlalchemy as sa

from conductor_client import fake_compute, journal
from conductor_client.bus import Bus
from conductor_client.cells import CellMap
from conductor_client.claims import Allocations, placement_adapter
from conductor_client.client import SchedulerClient
from conductor_client.cmd import life
from conductor_client.move_conductor import MoveConductor
from conductor_client.super_conductor import CellConductors, SuperConductor


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    return life.run("berth-super-conductor", _server, argv)


def _server(conf: cfg.ConfigOpts) -> messaging.MessageHandlingServer:
    bus = Bus(conf)
    cells = CellMap(sa.create_engine(conf.api_database.connection), conf.transport_url)
    scheduler = SchedulerClient.from_conf(bus)
    conductor = SuperConductor(scheduler, cells, CellConductors(lambda cell: Bus(conf, cell.transport_url)))
    moves = MoveConductor(
        scheduler,
        cells,
        CellConductors(lambda cell: Bus(conf, cell.transport_url), fake_compute.TOPIC, fake_compute.VERSION),
        Allocations(placement_adapter(conf)),
        conductor.journal,
        conf.scheduler.max_attempts,
    )
    return bus.server(journal.TOPIC, conf.host, conductor, moves)


if __name__ == "__main__":
    sys.exit(main())
