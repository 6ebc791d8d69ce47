"""What metrics and health checks show of the RPC server of a worker."""

from collections.abc import Callable

import msgspec

from scheduler.health import catalogue
from scheduler.health.counters import Counters
from scheduler.health.reports import WorkerState
from scheduler.rpc.server import Server

_TRAFFIC = {
    "refused": catalogue.REFUSED,
    "undelivered": catalogue.UNDELIVERED,
    "dropped": catalogue.DROPPED,
    "forwarded": catalogue.FORWARDED,
}


def traffic_counter(counters: Counters) -> Callable[[str, str], None]:
    """Return what counts messages that are not answered here, for ``rpc.server.Server.count``."""
    return lambda what, reason: counters.add(_TRAFFIC[what], 1, *filter(None, [reason]))


def with_traffic(state: WorkerState, answering: Server | None) -> WorkerState:
    """Return the state of a worker together with that of its RPC server, as far as it has started."""
    if answering is None:
        return state
    return msgspec.structs.replace(
        state,
        broker=answering.connected,
        # requests that wait for the end of an outage do not count as a hang
        stalled=max(state.stalled, 0.0 if state.gauges.get(catalogue.WAITING.name) else answering.stalled()),
        gauges=state.gauges
        | {
            catalogue.IN_FLIGHT.name: answering.activity.in_flight,
            catalogue.UNANSWERED.name: answering.unanswered,
        },
    )
