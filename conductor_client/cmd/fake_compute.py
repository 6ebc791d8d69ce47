"""berth-fake-compute: all computes of one cell as a process."""

import sys

from conductor_client import fake_compute, journal
from conductor_client.bus import Bus
from conductor_client.claims import Allocations, placement_adapter
from conductor_client.client import SchedulerClient
from conductor_client.cmd import life

PROG = "berth-fake-compute"


def main(argv=None):
    """Serve topic ``compute`` on ``[DEFAULT]/transport_url``, the bus of the cell."""
    conf = life.load(argv, PROG)
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
    return life.serve(bus.server(fake_compute.TOPIC, conf.host, compute), PROG)


if __name__ == "__main__":
    sys.exit(main())
