"""berth-fake-compute: all computes of one cell as a process.

Serves topic ``compute`` on ``[DEFAULT]/transport_url``, the bus of the cell.
"""

import sys

from conductor_client import fake_compute, journal
from conductor_client.bus import Bus
from conductor_client.claims import Allocations, placement_adapter
from conductor_client.client import SchedulerClient
from conductor_client.cmd import life


def main(argv=None):
    """Run it; returns the exit status."""
    return life.run("berth-fake-compute", _server, argv)


def _server(conf):
    own = conf.conductor_client
    bus, api_bus = Bus(conf), Bus(conf, own.api_transport_url)
    compute = fake_compute.FakeCompute(
        bus.client(journal.TOPIC, journal.VERSION),
        Allocations(placement_adapter(conf)),
        journal.Reporter(api_bus),
        fake_compute.Failures(own.fail_always, frozenset(own.fail_hosts), own.fail_rate, own.fail_seed),
        SchedulerClient.from_conf(api_bus) if own.report_instances else None,
        own.build_seconds,
        own.cell,
    )
    return bus.server(fake_compute.TOPIC, conf.host, compute)


if __name__ == "__main__":
    sys.exit(main())
