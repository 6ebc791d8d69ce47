"""Watches the process, serves its state, and notifies systemd.

The process is to end if it makes no progress for ``[berth]/worker_timeout``, so that it is started again and
the broker redelivers its requests. Each round puts this end off, if no message waits for a thread, or one was
begun, finished or got on with a claim lately, and the host table is being refreshed. The end comes from a
thread of faulthandler, which needs no interpreter lock: also if an extension or a regular expression keeps
that lock, and no round runs any more. It writes the stacks of all threads, and the exit status is 1.
"""

from collections.abc import Callable
import faulthandler
from functools import cache, partial
import json
import os
from pathlib import Path
import sys
import threading
import time
from typing import TextIO

from oslo_config import cfg
from oslo_log import log as logging
from prometheus_client import CONTENT_TYPE_LATEST, ProcessCollector, generate_latest

from scheduler.bounds.background import BackgroundLoop
from scheduler.health import catalogue, readiness
from scheduler.health.access import Access, Address
from scheduler.health.counters import Counters, StateCollector
from scheduler.health.endpoint import MonitoringEndpoint, Page
from scheduler.health.state import ServiceState
from scheduler.health.systemd import Notifier
from scheduler.version import version

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between two rounds.
INTERVAL = 1.0

#: Seconds without progress of a service that works: it may be short of CPU time.
MOVING = 5.0

#: Lines of the log, and the status that systemd shows.
WAITS, SERVES = "The daemon takes no requests yet", "The daemon takes requests"


def end_after(seconds: float) -> None:
    """Let the process end after this time with the stacks of its threads, unless called again; 0: never."""
    if seconds > 0:
        faulthandler.dump_traceback_later(seconds, exit=True, file=_stacks())
    else:
        faulthandler.cancel_dump_traceback_later()


@cache
def _stacks() -> TextIO:
    """Return where stacks are written: a daemon that was started with it closed has no standard error."""
    return sys.stderr or Path(os.devnull).open("w")


class Monitor:
    """Watches a service.

    Attributes:
        endpoint: The HTTP server; None if it is not wanted.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        read_state: Callable[[], ServiceState],
        counters: Counters,
        notifier: Notifier | None = None,
        clock: Callable[[], float] = time.monotonic,
        end_after: Callable[[float], None] = end_after,
    ) -> None:
        """Watch nothing yet.

        Args:
            read_state: Returns the state of the service; it must not block.
            end_after: Lets the process end after some seconds, unless called again; 0: never.

        Raises:
            ConfigError: ``[berth]/monitoring_listen`` is no address to listen on, or is open to others.
        """
        self._conf = conf
        self._read_state = read_state
        self._counters = counters
        self._notifier = notifier or Notifier()
        self._clock = clock
        self._end_after = end_after
        self._lock = threading.Lock()
        self._state = ServiceState()
        self._serving = self._stopping = self._stalls = False
        self._loaded_at: float | None = None
        self._announced = ""
        self._loop = BackgroundLoop("monitor", self.run_round)
        address = conf.berth.monitoring_listen and Address.parse(conf.berth.monitoring_listen)
        self.endpoint = None
        if address:
            self.endpoint = MonitoringEndpoint(address, self._pages(), access=Access.from_conf(conf, address))

    def start(self) -> None:
        """Begin to watch and to serve."""
        if self.endpoint is not None:
            self.endpoint.start()
        self._loop.start()

    def serving(self) -> None:
        """Note that requests are taken."""
        self._serving = True
        self._loop.wake()

    def begin_reload(self) -> None:
        """Notify systemd that the configuration is being read again, unless it still waits for the start."""
        if self._announced:
            self._notifier.notify(f"RELOADING=1\nMONOTONIC_USEC={int(self._clock() * 1e6)}")

    def end_reload(self, *, accepted: bool) -> None:
        """Count a reload, and notify systemd of its end."""
        self._counters.add(catalogue.RELOADED, 1, "accepted" if accepted else "refused")
        if self._announced:
            self._notifier.notify("READY=1")

    def stopping(self, limit: float) -> None:
        """Notify systemd that the service stops; the process ends in ``limit`` seconds, 0: in any time."""
        self._notifier.notify("STOPPING=1")
        with self._lock:
            self._stopping, self._serving = True, False
            self._end_after(limit)

    def stop(self) -> None:
        """End; what ends the process stays set, as something may still hang."""
        self._loop.stop(timeout=0)
        if self.endpoint is not None:
            self.endpoint.remove()

    def state(self) -> ServiceState:
        """Return the state of the service; the last one if it cannot be read."""
        try:
            self._state = self._read_state()
        except Exception:  # without a state the process would count as one that hangs
            LOG.exception("Cannot read the state of the daemon; showing its last one")
        return self._state

    def run_round(self) -> float:
        """Do what is due, and return the seconds until the next round."""
        state = self.state()
        self._notifier.feed_watchdog()
        with self._lock:
            if not self._stopping:
                self._announce(state)
                self._watch(state.stalled, self._conf.berth.worker_timeout)
        return INTERVAL

    def _watch(self, stalled: float, timeout: float) -> None:
        if stalled < MOVING or not timeout:
            self._stalls = False
            self._end_after(timeout and max(timeout, MOVING))
        elif stalled > timeout / 2 and not self._stalls:
            self._stalls = True
            LOG.error(
                "No progress for %d s; the daemon ends after %d s, and the broker redelivers its requests",
                stalled,
                timeout,
            )

    def _announce(self, state: ServiceState) -> None:
        """Notify systemd when requests are taken.

        An unavailable broker delays this by up to [berth]/database_start_timeout.
        """
        limit = self._conf.berth.database_start_timeout
        if self._loaded_at is None and state.api_database:
            self._loaded_at = self._clock()
        if self._announced == SERVES:
            return
        if self._serving:
            LOG.info(SERVES)
            self._announced = SERVES
        elif not self._announced and self._loaded_at is not None and self._clock() >= self._loaded_at + limit:
            LOG.warning(WAITS)
            self._announced = WAITS
        else:
            return
        self._notifier.notify("READY=1")
        self._notifier.notify(f"STATUS={self._announced}")

    def _pages(self) -> dict[str, Callable[[], Page]]:
        def read() -> tuple[bool, ServiceState]:
            return self._serving, self.state()

        states = readiness.Readiness(read, self._conf.host, version())
        registry = self._counters.registry
        registry.register(StateCollector(read, version()))
        ProcessCollector(registry=registry)
        return {
            "/healthz": partial(_health_page, states.alive),
            "/readyz": partial(_health_page, states.ready),
            "/metrics": lambda: Page("200 OK", CONTENT_TYPE_LATEST, generate_latest(registry)),
        }


def _health_page(check: Callable[[], tuple[readiness.Health, readiness.Document]]) -> Page:
    health, document = check()
    status = "503 Service Unavailable" if health is readiness.Health.FAIL else "200 OK"
    return Page(status, readiness.CONTENT_TYPE, json.dumps(document, indent=1).encode() + b"\n")
