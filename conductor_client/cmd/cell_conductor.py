"""berth-cell-conductor: the conductor of one cell as a process.

Serves topic ``conductor`` on ``[DEFAULT]/transport_url``, the bus of the cell.
"""

from collections.abc import Sequence
import sys

from oslo_config import cfg
import oslo_messaging as messaging

from conductor_client import fake_compute, journal
from conductor_client.bus import Bus
from conductor_client.cell_conductor import CellConductor
from conductor_client.claims import Allocations, placement_adapter
from conductor_client.cmd import life


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    return life.run("berth-cell-conductor", _server, argv)


def _server(conf: cfg.ConfigOpts) -> messaging.MessageHandlingServer:
    bus = Bus(conf)
    conductor = CellConductor(
        bus.client(fake_compute.TOPIC, fake_compute.VERSION),
        Allocations(placement_adapter(conf)),
        journal.Reporter(Bus(conf, conf.conductor_client.api_transport_url)),
        conf.scheduler.max_attempts,
        conf.conductor_client.cell,
    )
    return bus.server(journal.TOPIC, conf.host, conductor)


if __name__ == "__main__":
    sys.exit(main())
