"""The process that serves requests: its start, its reload and its end."""

from collections.abc import Callable, Iterable, Sequence
import contextlib
import ctypes
from dataclasses import dataclass, field
import faulthandler
import gc
import os
import signal
import socket
import sys
import threading
import time
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import timeutils

from scheduler import conf as options
from scheduler import errors
from scheduler.bounds.background import BackgroundLoop
from scheduler.daemon.options_trial import try_options
from scheduler.health.counters import Counters
from scheduler.health.monitor import Monitor
from scheduler.health.state import ServiceState

LOG = logging.getLogger(f"nova.{__name__}")

#: Exit status of a daemon that cannot start, or was interrupted.
FAILED = 1

#: Exit status of a daemon that could not read the API database in time.
NO_DATABASE = 3

#: Seconds between looks of a starting daemon that waits for Placement whether it is stopped.
ABLE_INTERVAL = 1.0

#: Seconds between log lines of a stopping daemon that still waits.
PROGRESS_INTERVAL = 10

#: Seconds of the time to stop that are kept for what follows the requests: background deletions, connections.
#: At most a quarter of the time is kept: nova gives requests no time at all if there are 20 s or fewer.
CLOSING_TIME = 20

#: Objects created between two runs of the garbage collector. A request creates tens of thousands and releases
#: them. With the default of 700 the collector would traverse all host data at every second request.
COLLECT_AFTER = 10_000


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
    counters: Counters = field(default_factory=Counters)


class DatabaseAway(errors.BerthError):
    """The API database could not be read in the time that a start has."""


class Service:
    """The process that serves requests. ``run`` is for the main thread; the steps below it are for any."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        argv: Sequence[str],
        parts: ServiceParts,
        monitor: Monitor | None = None,
        try_options: Callable[[cfg.ConfigOpts], None] = try_options,
    ) -> None:
        """Prepare to run.

        Args:
            try_options: Raises ``ConfigError`` for options with which the daemon could not start.

        Raises:
            ConfigError: ``[berth]/monitoring_listen`` is no address to listen on.
        """
        self.conf = conf
        self._argv = argv
        self._parts = parts
        self._try_options = try_options
        self._manager: Any = None
        self._server: Any = None
        self._explanations: Any = None
        self._periodics: list[BackgroundLoop] = []
        self._stopping = False
        self._reloads = 0
        self._status = 0
        self._monitor = monitor or Monitor(conf, self.read_state, parts.counters)

    def read_state(self) -> ServiceState:
        """Return what metrics and health checks show."""
        return self._parts.read_state(self._manager, self._server)

    def run(self) -> int:
        """Run until a signal ends the daemon; return the exit status."""
        if sys.stderr is not None:  # as it is if the daemon was started with it closed
            faulthandler.enable()
        # Signals are read from a socket: a process that was stopped may get them in another thread, which
        # would not wake this one.
        received, written = socket.socketpair()
        written.setblocking(False)
        signal.set_wakeup_fd(written.fileno())
        signal.signal(signal.SIGINT, lambda *_: os._exit(FAILED))
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.signal(signal.SIGHUP, lambda *_: None)
        # The command keeps it from coming before, when it would end the process.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        self._monitor.start()
        threading.Thread(target=self._start_or_end, name="start", daemon=True).start()
        while (number := received.recv(1)[0]) != signal.SIGTERM:
            if number == signal.SIGHUP:
                self.reload()
        if not self._status:
            self.stop()
        self._monitor.stop()
        LOG.info("The daemon has stopped")
        return self._status

    def _start_or_end(self) -> None:
        self._status = self.start()
        if self._status:
            os.kill(os.getpid(), signal.SIGTERM)

    def start(self) -> int:
        """Start everything; return the exit status of a daemon that cannot start, else 0."""
        failure = self._attempt("Cannot start: %s", self._start)
        if failure is None or self._stopping:
            return 0
        return NO_DATABASE if isinstance(failure, DatabaseAway) else FAILED

    def stop(self) -> None:
        """Stop gracefully: the process ends in graceful_shutdown_timeout, whatever may hang."""
        LOG.info("The daemon is stopping")
        self._stopping = True
        self._monitor.stopping(self.conf.graceful_shutdown_timeout)
        timer = timeutils.StopWatch(options.drain_timeout(self.conf))
        timer.start()
        self._stop_periodics()
        if self._manager is not None:
            self._manager.stop_claiming()
        if self._server is not None:
            self._drain(timer)
        if self._manager is not None:
            self._manager.stop(timer.leftover)

    def reload(self) -> None:
        """Take over changed options if the daemon could start with them; reset the manager in any case."""
        LOG.info("Re-reading the configuration")
        self._monitor.begin_reload()
        for remark in options.misspelt_options(self.conf):
            LOG.warning("%s", remark)
        accepted: list[bool] = []
        self._attempt(
            "Cannot re-read the configuration: %s",
            lambda: accepted.append(options.reload(self.conf, self._argv, self._try_options)),
        )
        self._reloads += 1
        if self._manager is not None:
            self._reset(self._manager)
        self._monitor.end_reload(accepted=any(accepted))

    def _reset(self, manager: Any) -> None:
        self._attempt("Cannot reload everything: %s", manager.reset)

    def _attempt(self, complaint: str, call: Callable[[], None]) -> BaseException | None:
        """Call a function; log what it raises, and return it."""
        try:
            call()
        except errors.BerthError as error:
            failure = error
        except BaseException as error:  # also SystemExit, which a rule of an operator may raise
            LOG.exception(complaint, type(error).__name__)
            return error
        else:
            return None
        # logged out here: oslo.log appends an error that is being handled to the line
        LOG.error(complaint, failure)
        return failure

    def _start(self) -> None:
        spare_the_collector()  # before the hosts are loaded, which creates millions of objects
        reloads = self._reloads
        manager = self._parts.manager(self.conf)
        manager.start()
        self._manager = manager
        if self._reloads != reloads:  # while there was no manager to notify
            self._reset(manager)
        self._wait_for_database(manager)
        LOG.info("The hosts are loaded; connecting to the broker")
        server = self._parts.server(self.conf, manager)
        server.connect()  # before the stream, which would be given up while the broker is away
        manager.catch_up()
        spare_the_collector()
        # One that stops would return each request to the broker, and be handed it again.
        if self._stopping:
            return
        server.start()
        self._server = server
        if self._stopping:
            server.stop()
            return
        self._start_explanations(manager, server)
        self._start_periodics(manager)
        while not (manager.wait_until_able(ABLE_INTERVAL) or self._stopping):
            pass  # the outage is in the log
        if not self._stopping:
            self._monitor.serving()

    def _start_periodics(self, manager: Any) -> None:
        for work in self._parts.periodics(self.conf, manager):
            loop = BackgroundLoop(work.name, work.run, pause_after_error=work.interval)
            self._periodics.append(loop)
            loop.start(work.delay)
        if self._stopping:
            self._stop_periodics()

    def _stop_periodics(self) -> None:
        for loop in self._periodics:
            loop.stop(timeout=0)  # does not wait for what is being done

    def _start_explanations(self, manager: Any, server: Any) -> None:
        """Begin to answer questions about decisions; requests are served without that, too."""
        if self._parts.explanations is None:
            return
        explanations = self._parts.explanations(self.conf, manager, server)
        if not self._attempt("Cannot answer berth-explain: %s", explanations.start):
            self._explanations = explanations

    def _wait_for_database(self, manager: Any) -> None:
        """Wait until the cells are known: before that every request would end with 'not enough hosts'."""
        if manager.wait_until_ready(0):
            return
        limit = self.conf.berth.database_start_timeout
        LOG.warning("Waiting for the API database before requests are taken, at most %g s", limit)
        if not manager.wait_until_ready(limit):
            raise DatabaseAway(f"the API database could not be read within {limit:g} seconds")

    def _drain(self, timer: timeutils.StopWatch) -> None:
        # requests are waited for without a bound, in a thread that can be abandoned
        drain = threading.Thread(target=self._finish_requests, name="drain", daemon=True)
        drain.start()
        limit = timer.leftover()
        end = time.monotonic() + limit - min(CLOSING_TIME, limit / 4)
        while drain.is_alive() and time.monotonic() < end:
            drain.join(min(PROGRESS_INTERVAL, end - time.monotonic()))
            if drain.is_alive() and self._server.open_calls:
                LOG.info("Waiting for the requests in progress")
        if drain.is_alive() and self._server.open_calls:
            LOG.warning("Graceful shutdown timed out with requests in progress; the broker redelivers them")

    def _finish_requests(self) -> None:
        self._attempt("Cannot stop taking requests: %s", self._server.stop)
        LOG.info("The daemon takes no more requests")
        self._server.wait()
        if self._explanations is not None:
            for step in (self._explanations.stop, self._explanations.wait):
                self._attempt("Cannot stop answering berth-explain: %s", step)
        self._server.bus.close()


def spare_the_collector() -> None:
    """Keep the garbage collector from traversing objects that live until the process ends, also at that end.

    What was freed so far is returned to the system: loading the hosts leaves holes of 9 KiB a host, which the
    C library keeps. Others than GNU's have no such call.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
