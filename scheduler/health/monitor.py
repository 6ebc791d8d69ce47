"""The master's part: it collects what workers report, serves it, and notifies systemd.

Each round reads reports, kills workers that hang, and feeds systemd's watchdog if the workers make progress:
a master that hangs, or that cannot get its workers to work, is restarted as a whole.
"""

from collections.abc import Callable
from functools import partial
import json
import threading
import time

from oslo_config import cfg
from oslo_log import log as logging

from scheduler.bounds.background import BackgroundLoop
from scheduler.health import catalogue, exposition, readiness
from scheduler.health.access import Access
from scheduler.health.address import Address
from scheduler.health.counters import Counters
from scheduler.health.endpoint import Endpoint, Page
from scheduler.health.reports import ReportChannel
from scheduler.health.supervision import WorkerTable
from scheduler.health.systemd import Notifier
from scheduler.version import version

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between two rounds at most; a report begins one at once.
INTERVAL = 1.0

#: Seconds that workers have to take over a changed configuration, before systemd is notified that it is done.
RELOAD_TIMEOUT = 30.0

#: Lines of the log, and the status that systemd shows.
NOT_ALL, ALL = "Not all workers take requests yet (%d of %d)", "All workers take requests (%d of %d)"

_STATUS = {
    readiness.Health.PASS: "200 OK",
    readiness.Health.WARN: "200 OK",
    readiness.Health.FAIL: "503 Service Unavailable",
}


class Monitor:
    """Watches the workers of a daemon.

    Attributes:
        channel: Where workers report.
        workers: What is known of them.
        totals: What they have counted.
        endpoint: The HTTP server; None if it is not wanted.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        workers: int,
        notifier: Notifier | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin to receive reports; nothing is served yet.

        Raises:
            ConfigError: ``[berth]/monitoring_listen`` is no address to listen on, or is open to others.
        """
        self.channel = ReportChannel()
        self.totals = Counters([metric for metric in catalogue.METRICS if metric.kind != "gauge"])
        self.workers = WorkerTable(workers, lambda: conf.berth.worker_timeout, clock)
        self._notifier = notifier or Notifier()
        self._clock = clock
        self._stopping = threading.Event()
        self._start_timeout = conf.berth.database_start_timeout
        self._loaded_at: float | None = None
        self._announced: int | None = None
        self._reload_until: float | None = None
        self._reloads = 0
        self._loop = BackgroundLoop("monitor", self._wait_and_run_round)
        text = conf.berth.monitoring_listen
        self.endpoint = None
        if text:
            address = Address.parse(text)
            access = Access.from_conf(conf, address)
            self.endpoint = Endpoint(address, self._pages(conf.host), access=access)

    def start(self) -> None:
        """Begin to watch and to serve; before workers are forked."""
        if self.endpoint is not None:
            self.endpoint.start()
        self._loop.start()

    def close_in_child(self) -> None:
        """Close what a worker has inherited and does not need."""
        if self.endpoint is not None:
            self.endpoint.close_in_child()

    def begin_reload(self) -> None:
        """Notify systemd that the configuration is being read again."""
        self._notifier.reloading()

    def end_reload(self, *, accepted: bool) -> None:
        """Count a reload; systemd is notified of its end when the workers have followed."""
        self.totals.add(catalogue.RELOADED, 1, "accepted" if accepted else "refused")
        self._reloads += 1
        self._reload_until = self._clock() + RELOAD_TIMEOUT

    def worker_ended(self, number: int, status: int) -> None:
        """Count a worker that has ended."""
        self.receive()
        hung = self.workers.ended(number)
        reason = "hung" if hung else "killed" if status < 0 else "ended"
        self.totals.add(catalogue.EXITS_SEEN, 1, reason)

    def stopping(self) -> None:
        """Notify systemd that the daemon stops; workers may take their time from now on."""
        self._stopping.set()
        self._notifier.stopping()

    def stop(self) -> None:
        """End: all workers have ended."""
        self._loop.stop(timeout=0)  # it may wait for a report, and no worker is left to send one
        if self.endpoint is not None:
            self.endpoint.remove()

    def receive(self) -> None:
        """Take over the reports that have arrived."""
        reports = list(self.channel.received())
        for report in reports:
            self.totals.merge(report.counts)
        self.workers.reported(reports)

    def run_round(self) -> None:
        """Take over the reports that have arrived, and do what is due."""
        self.receive()
        if not self._stopping.is_set():
            self.workers.check()
            self._announce()
        if self._stopping.is_set() or self.workers.all_alive():
            self._notifier.feed_watchdog()
        self._finish_reload()

    def _wait_and_run_round(self) -> float:
        self.channel.wait(INTERVAL)
        self.run_round()
        return 0.0

    def _announce(self) -> None:
        """Notify systemd when all workers take requests.

        An unavailable broker delays this by up to [berth]/database_start_timeout.
        """
        serving, total = len(self.workers.served), len(self.workers.records)
        if self._loaded_at is None and len(self.workers.loaded) == total:
            self._loaded_at = self._clock()
        if self._announced == total:
            return
        if serving == total:
            text = ALL % (total, total)
            LOG.info(ALL, total, total)
        elif self._announced is None and self._loading_ended_before(self._start_timeout):
            text = NOT_ALL % (serving, total)
            LOG.warning(NOT_ALL, serving, total)
        else:
            return
        self._announced = serving
        self._notifier.ready()
        self._notifier.status(text)

    def _loading_ended_before(self, seconds: float) -> bool:
        return self._loaded_at is not None and self._clock() - self._loaded_at >= seconds

    def _finish_reload(self) -> None:
        until = self._reload_until
        if until is None:
            return
        followed = all(
            each.report is not None and each.report.reloads >= self._reloads for each in self.workers.records
        )
        if followed or self._clock() > until:
            self._reload_until = None
            self._notifier.ready()

    def _pages(self, host: str) -> dict[str, Callable[[], Page]]:
        states = readiness.Readiness(self.workers, host, version())
        metrics = exposition.DaemonCollector(self.totals, self.workers, version(), time.time())
        return {
            "/healthz": partial(_health_page, states.alive),
            "/readyz": partial(_health_page, states.ready),
            "/metrics": lambda: Page("200 OK", exposition.CONTENT_TYPE, metrics.text()),
        }


def _health_page(check: Callable[[], tuple[readiness.Health, readiness.Document]]) -> Page:
    health, document = check()
    body = json.dumps(document, indent=1).encode() + b"\n"
    return Page(_STATUS[health], readiness.CONTENT_TYPE, body)
