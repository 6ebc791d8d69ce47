"""What metrics and health checks show of the RPC server."""

from collections.abc import Callable, Iterable
from dataclasses import replace
import time
from typing import TYPE_CHECKING

from scheduler.decisions.open_requests import OpenRequest, open_requests
from scheduler.health import catalogue
from scheduler.health.counters import Counters
from scheduler.health.state import ServiceState
from scheduler.rpc.server import Server

if TYPE_CHECKING:
    from scheduler.decisions.trace import Trace

_TRAFFIC = {
    "refused": catalogue.REFUSED,
    "undelivered": catalogue.UNDELIVERED,
    "dropped": catalogue.DROPPED,
}


def traffic_counter(counters: Counters) -> Callable[[str], None]:
    """Return what counts messages that are not answered here, for ``rpc.server.Server.count``."""
    return lambda what: counters.add(_TRAFFIC[what], 1)


def requests_in_progress(answering: Server, decisions: Iterable["Trace"]) -> list[OpenRequest]:
    """Return the requests in progress, those among them that are being decided."""
    now = time.monotonic()
    calls = ((call.message_id, call.listed(now)) for call in answering.open_calls)
    return open_requests(calls, decisions, now)


def with_traffic(
    state: ServiceState, answering: Server | None, decisions: Iterable["Trace"] = ()
) -> ServiceState:
    """Return the state of a service together with that of its RPC server, as far as it has started."""
    if answering is None:
        return state
    return replace(
        state,
        broker=answering.connected,
        # requests that wait for the end of an outage do not count as a hang
        stalled=max(
            state.stalled, 0.0 if state.gauges.get(catalogue.WAITING.name) else answering.open_calls.stalled()
        ),
        requests=tuple(requests_in_progress(answering, decisions)),
        gauges=state.gauges
        | {
            catalogue.IN_FLIGHT.name: answering.open_calls.in_flight,
            catalogue.UNANSWERED.name: len(answering.open_calls),
        },
    )
