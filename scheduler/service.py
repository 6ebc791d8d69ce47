"""Process life: a master, its workers, and what signals do to them (spec: wire-and-config 7).

::

    master ──fork──▶ worker 0 … n     each with its own manager and RPC server;
                                      worker 0 also keeps the heartbeats and the other periodic work

=======  ==========================================  ==============================================
signal   to the master                               to a worker
=======  ==========================================  ==============================================
SIGTERM  the same to all workers, then exit 0        stop consuming, finish what is in progress, exit 0
SIGINT   all exit 1 at once                          exit 1 at once
SIGHUP   re-read mutable options, then the same      re-read mutable options, cells and connections;
         to all workers                              requests go on meanwhile
SIGUSR2  a report                                    a report
=======  ==========================================  ==============================================

The threading backend of oslo.service is cotyledon in a wrapper that ends a worker on SIGHUP. A SIGHUP must
not interrupt service, so cotyledon is used without the wrapper.
"""

from collections.abc import Callable
import dataclasses
import gc
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time

import cotyledon
from oslo_log import log as logging
from oslo_service import loopingcall, systemd
from oslo_utils import timeutils

from scheduler import conf as options
from scheduler import errors, reports

LOG = logging.getLogger(__name__)

# A worker that cannot start; before the daemon was ever ready, this ends the daemon too.
START_FAILED = 1

# Objects made until the garbage collector looks at them. A request makes tens of thousands and drops them
# again; by the default, 700, it walks all that a worker knows of the hosts at every second request.
COLLECT_AFTER = 10_000

# How often a stopping worker says that it still waits.
PROGRESS_INTERVAL = 10

# Seconds of the time to stop that are kept for what comes after the requests: background deletions,
# connections. No more than a quarter of it: nova gives requests no time at all if there are 20 s or fewer.
CLOSING_TIME = 20


@dataclasses.dataclass(frozen=True)
class Periodic:
    """Work that one process repeats: ``call()`` after ``delay`` seconds, then every ``interval``."""

    name: str
    call: Callable[[], None]
    interval: float
    delay: float = 0.0


@dataclasses.dataclass(frozen=True)
class Parts:
    """What a worker is made of, as functions that build it in the worker's own process.

    ``manager(conf)``: has start(), stop(timeout), reset().
    ``server(conf, manager)``: has start(), which may wait for the broker as long as it takes; stop(), after
    which nothing is consumed; wait(), until all that was consumed has been answered; transport.cleanup(),
    which closes the connections.
    ``periodics(conf, manager)``: any number of Periodic, for worker 0 alone.
    """

    manager: Callable
    server: Callable
    periodics: Callable


class Worker(cotyledon.Service):
    """One process that serves requests. cotyledon calls each method below in a thread of its own."""

    name = "scheduler"

    def __init__(self, worker_id, conf, argv, parts, ready):
        super().__init__(worker_id)
        self.conf = conf
        self._argv = argv
        self._parts = parts
        self._ready = ready
        self._manager = None
        self._server = None
        self._loops = []
        self._stopping = threading.Event()
        reports.install(conf)

    def run(self):
        """Start everything; exit status 1 if that cannot be done."""
        refusal = None
        try:
            self._start()
        except errors.BerthError as error:
            refusal = error
        except Exception:
            LOG.exception("Worker %d cannot start", self.worker_id)
            sys.exit(START_FAILED)
        if refusal:
            LOG.error("Worker %d cannot start: %s", self.worker_id, refusal)
            sys.exit(START_FAILED)
        self._ready.release()

    def terminate(self):
        """Stop gracefully: exit status 0 after this returns."""
        timer = timeutils.StopWatch(options.drain_timeout(self.conf))
        timer.start()
        LOG.info("Worker %d stops", self.worker_id)
        self._stopping.set()
        for loop in self._loops:
            loop.stop()
        if self._server is not None:
            self._drain(timer)
        if self._manager is not None:
            self._manager.stop(timer.leftover())
        LOG.info("Worker %d has stopped", self.worker_id)

    def reload(self):
        """Take over changed options and let the manager look at everything anew, while it serves."""
        LOG.info("Worker %d re-reads its configuration", self.worker_id)
        options.reload(self.conf, self._argv)
        if self._manager is None:
            return
        refusal = None
        try:
            self._manager.reset()
        except errors.BerthError as error:
            refusal = error
        except Exception:
            LOG.exception("Worker %d could not take over everything", self.worker_id)
        if refusal:
            LOG.error("Worker %d could not take over everything: %s", self.worker_id, refusal)

    def _start(self):
        check_temporary_directory(self.conf)
        manager = self._parts.manager(self.conf)
        manager.start()
        self._manager = manager
        spare_the_collector()
        LOG.info("Worker %d has loaded its view of the hosts and connects to the broker", self.worker_id)
        server = self._parts.server(self.conf, manager)
        server.start()
        self._server = server
        LOG.info("Worker %d takes requests", self.worker_id)
        if self.worker_id == 0:
            self._start_periodics(manager)

    def _start_periodics(self, manager):
        for work in self._parts.periodics(self.conf, manager):
            loop = loopingcall.FixedIntervalLoopingCall(self._unless_stopping(work))
            loop.start(work.interval, initial_delay=work.delay, stop_on_exception=False)
            self._loops.append(loop)

    def _unless_stopping(self, work):
        def call():
            if not self._stopping.is_set():
                work.call()

        call.__qualname__ = work.name  # by which the library calls it when it logs
        return call

    def _drain(self, timer):
        # oslo.messaging waits without a bound, so it waits in a thread that may be left behind
        drain = threading.Thread(target=self._finish_requests, name="drain", daemon=True)
        drain.start()
        limit = timer.leftover()
        end = time.monotonic() + limit - min(CLOSING_TIME, limit / 4)
        while drain.is_alive() and time.monotonic() < end:
            drain.join(min(PROGRESS_INTERVAL, end - time.monotonic()))
            if drain.is_alive():
                LOG.info("Worker %d waits for the requests in progress", self.worker_id)
        if drain.is_alive():
            LOG.warning("Worker %d leaves requests unanswered, its time to stop is over", self.worker_id)

    def _finish_requests(self):
        self._server.stop()
        LOG.info("Worker %d takes no more requests", self.worker_id)
        self._server.wait()
        self._server.transport.cleanup()


class Daemon:
    """The master process."""

    def __init__(self, conf, argv, parts):
        self.conf = conf
        self._argv = argv
        self._parts = parts
        self._workers = options.worker_count(conf)
        self._was_ready = threading.Event()
        self._failed = threading.Event()

    def run(self):
        """Run until a signal ends it; returns the exit status."""
        context = multiprocessing.get_context("fork")
        ready = context.Semaphore(0)
        # cotyledon would tell systemd before a worker exists
        socket = os.environ.pop("NOTIFY_SOCKET", None)
        supervisor = cotyledon.ServiceManager(
            graceful_shutdown_timeout=self.conf.graceful_shutdown_timeout, mp_context=context
        )
        supervisor.register_hooks(on_reload=self._reload, on_dead_worker=self._worker_died)
        supervisor.add(Worker, self._workers, args=(self.conf, self._argv, self._parts, ready))
        threading.Thread(target=self._announce, args=(ready, socket), daemon=True).start()
        try:
            supervisor.run()
        except SystemExit as end:
            LOG.info("The daemon has stopped")
            return START_FAILED if self._failed.is_set() else end.code

    def _announce(self, ready, socket):
        """Tell systemd once all workers serve, or once waiting for that has taken too long."""
        end = time.monotonic() + self.conf.berth.ready_timeout
        serving = 0
        while serving < self._workers and ready.acquire(timeout=max(0, end - time.monotonic())):
            serving += 1
        if serving < self._workers:
            LOG.warning("Only %d of %d workers take requests so far", serving, self._workers)
        else:
            self._was_ready.set()
            LOG.info("All %d workers take requests", self._workers)
        if socket:
            os.environ["NOTIFY_SOCKET"] = socket
            systemd.notify_once()

    def _reload(self):
        LOG.info("Re-reading the configuration")
        options.reload(self.conf, self._argv)

    def _worker_died(self, _service_id, worker_id, status):
        """End the daemon if its first start cannot succeed; later the worker is started again."""
        if status == START_FAILED and not self._was_ready.is_set() and not self._failed.is_set():
            LOG.error("Worker %d could not start, giving up", worker_id)
            self._failed.set()
            os.kill(os.getpid(), signal.SIGTERM)


def spare_the_collector():
    """Keep the garbage collector from looking again and again at what lives as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


def check_temporary_directory(conf):
    """Raise ``ConfigError`` unless a directory can be made below [DEFAULT]/tempdir."""
    try:
        with tempfile.TemporaryDirectory(dir=conf.tempdir):
            pass
    except OSError as error:
        raise errors.ConfigError(f"[DEFAULT]/tempdir: no temporary directory can be made: {error}") from error
