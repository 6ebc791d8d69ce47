"""The parts of a service, which a module of ``scheduler/cmd`` or a test composes."""

from collections.abc import Callable, Iterable
import dataclasses
from typing import Any

from oslo_config import cfg

from scheduler.health.counters import Counters
from scheduler.health.state import ServiceState


@dataclasses.dataclass(frozen=True)
class Periodic:
    """Work that is repeated: ``call()`` after ``delay`` seconds, then every ``interval`` seconds."""

    name: str
    call: Callable[[], None]
    interval: float
    delay: float = 0.0

    def run(self) -> float:
        """Do it once, and return the seconds until the next time."""
        self.call()
        return self.interval


@dataclasses.dataclass(frozen=True)
class ServiceParts:
    """What a service consists of, as functions that build it.

    Attributes:
        manager: ``manager(conf)`` builds a manager without connecting to anything, or raises ``BerthError``
            for options that cannot work. It has start(), wait_until_ready(timeout), catch_up(),
            wait_until_able(timeout), reset(), and at the end stop_claiming(), then stop(seconds_left).
        server: ``server(conf, manager)`` builds a server. It has connect() and start(), which may wait
            for the broker without a bound; stop(), after which nothing is consumed; wait(), which returns
            when all that was consumed is answered; and bus.close(), which closes the connections.
        periodics: ``periodics(conf, manager)`` returns the periodic work.
        explanations: ``explanations(conf, manager, server)`` builds the server that answers questions about
            decisions, with start(), stop() and wait().
        read_state: ``read_state(manager, server)`` returns what metrics and health checks show, as far as
            both have started. It must not block.
        counters: What manager and server count into.
    """

    manager: Callable[[cfg.ConfigOpts], Any]
    server: Callable[[cfg.ConfigOpts, Any], Any]
    periodics: Callable[[cfg.ConfigOpts, Any], Iterable[Periodic]]
    explanations: Callable[[cfg.ConfigOpts, Any, Any], Any] | None = None
    read_state: Callable[[Any, Any], ServiceState] = lambda _manager, _server: ServiceState()
    counters: Counters = dataclasses.field(default_factory=Counters)
