"""berth-super-conductor: the super-conductor stand-in as a process."""

import sys

import sqlalchemy as sa

from conductor_client import journal
from conductor_client.bus import Bus
from conductor_client.cells import CellMap
from conductor_client.client import SchedulerClient
from conductor_client.cmd import life
from conductor_client.super_conductor import CellConductors, SuperConductor

PROG = "berth-super-conductor"


def main(argv=None):
    """Serve topic ``conductor`` on ``[DEFAULT]/transport_url``; cells are those of ``[api_database]``."""
    conf = life.load(argv, PROG)
    bus = Bus(conf)
    cells = CellMap(sa.create_engine(conf.api_database.connection), conf.transport_url)
    cell_conductors = CellConductors(lambda cell: Bus(conf, cell.transport_url))
    conductor = SuperConductor(SchedulerClient.from_conf(bus), cells, cell_conductors)
    return life.serve(bus.server(journal.TOPIC, conf.host, conductor), PROG)


if __name__ == "__main__":
    sys.exit(main())
