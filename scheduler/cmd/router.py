"""berth-router: the daemon before the partitions of a cloud. Exit status as that of berth-scheduler."""

from __future__ import annotations

from collections.abc import Sequence
import sys
from typing import TYPE_CHECKING

from scheduler.cmd import scheduler

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

    from scheduler.daemon.service import ServiceParts
    from scheduler.router.service import RouterService
    from scheduler.rpc.server import Server


def main(argv: Sequence[str] | None = None) -> int | None:
    """Run the daemon.

    Returns:
        The exit status.
    """
    return scheduler.main(argv, parts)


def parts(_conf: ConfigOpts) -> ServiceParts:
    """Return the parts of a router; they are imported here, after threads were chosen."""
    from scheduler.cmd.traffic import traffic_counter, with_traffic
    from scheduler.daemon.service import ServiceParts
    from scheduler.health.counters import Counters
    from scheduler.health.state import ServiceState
    from scheduler.router.service import RouterService

    counters = Counters()
    state = ServiceState(api_database=True, placement=True)  # a router needs neither

    def server(_conf: ConfigOpts, router: RouterService) -> Server:
        router.server.count = traffic_counter(counters)
        return router.server

    return ServiceParts(
        manager=RouterService,
        server=server,
        periodics=lambda _conf, _router: (),
        read_state=lambda _router, answering: with_traffic(state, answering),
        counters=counters,
    )


if __name__ == "__main__":
    sys.exit(main())
