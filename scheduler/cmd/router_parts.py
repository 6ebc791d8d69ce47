"""The parts of berth-router."""

from oslo_config import cfg

from scheduler.cmd.traffic import traffic_counter, with_traffic
from scheduler.daemon.parts import ServiceParts
from scheduler.health.counters import Counters
from scheduler.health.state import ServiceState
from scheduler.router.service import RouterService
from scheduler.rpc import server

#: A router needs no database and no Placement.
ROUTER_STATE = ServiceState(api_database=True, placement=True)


def all_parts() -> ServiceParts:
    """Return the parts of a router."""
    counters = Counters()

    def make_server(_conf: cfg.ConfigOpts, router: RouterService) -> server.Server:
        made = router.server()
        made.count = traffic_counter(counters)
        return made

    return ServiceParts(
        manager=RouterService,
        server=make_server,
        periodics=lambda _conf, _router: (),
        read_state=lambda _router, answering: with_traffic(ROUTER_STATE, answering),
        counters=counters,
    )
