"""The parts of a worker of berth-router."""

from oslo_config import cfg

from scheduler.cmd.traffic import traffic_counter, with_traffic
from scheduler.daemon.parts import WorkerParts
from scheduler.health.counters import Counters
from scheduler.health.reports import WorkerState
from scheduler.router.service import RouterService
from scheduler.rpc import server

#: A router needs no database and no Placement.
ROUTER_STATE = WorkerState(api_database=True, placement=True)


def all_parts() -> WorkerParts:
    """Return the parts of the workers of one router; to be called before they are forked."""
    counters = Counters()

    def make_server(_conf: cfg.ConfigOpts, router: RouterService, _worker_id: int) -> server.Server:
        made = router.server()
        made.count = traffic_counter(counters)
        return made

    return WorkerParts(
        manager=RouterService,
        server=make_server,
        periodics=lambda _conf, _router: (),
        read_state=lambda _router, answering: with_traffic(ROUTER_STATE, answering),
        counters=counters,
    )
