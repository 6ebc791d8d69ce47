"""The parts of a worker, which ``scheduler/cmd/worker_parts.py`` or a test composes."""

from collections.abc import Callable, Iterable
import dataclasses
from typing import Any

from oslo_config import cfg

from scheduler.health.counters import Counters
from scheduler.health.reports import WorkerState


@dataclasses.dataclass(frozen=True)
class Periodic:
    """Work that one process repeats: ``call()`` after ``delay`` seconds, then every ``interval`` seconds."""

    name: str
    call: Callable[[], None]
    interval: float
    delay: float = 0.0

    def run(self) -> float:
        """Do it once, and return the seconds until the next time."""
        self.call()
        return self.interval


@dataclasses.dataclass(frozen=True)
class WorkerParts:
    """What a worker consists of, as functions that build it in the worker's own process.

    Attributes:
        manager: ``manager(conf)`` builds a manager without connecting to anything, or raises ``BerthError``
            for options that cannot work. It has start(), wait_until_ready(timeout), catch_up(worker_id),
            reset(), and at the end stop_claiming(), then stop(timeout).
        server: ``server(conf, manager, worker_id)`` builds a server. It has start(), which may wait for the
            broker without a bound; stop(), after which nothing is consumed; wait(), which returns when all
            that was consumed is answered; and transport.cleanup(), which closes the connections.
        periodics: ``periodics(conf, manager)`` returns the periodic work of worker 0.
        explanations: ``explanations(conf, manager, server, worker_id)`` builds the server that answers
            questions about decisions, with start(), stop() and wait().
        read_state: ``read_state(manager, server)`` returns what metrics and health checks show of a worker.
            It must not block.
        counters: What manager and server count into.
    """

    manager: Callable[[cfg.ConfigOpts], Any]
    server: Callable[[cfg.ConfigOpts, Any, int], Any]
    periodics: Callable[[cfg.ConfigOpts, Any], Iterable[Periodic]]
    explanations: Callable[[cfg.ConfigOpts, Any, Any, int], Any] | None = None
    read_state: Callable[[Any, Any], WorkerState] = lambda _manager, _server: WorkerState()
    counters: Counters = dataclasses.field(default_factory=Counters)
