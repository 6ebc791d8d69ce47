"""Process life: a master, its workers, and what signals do to them (spec: wire-and-config 7).

::

    master ──fork──▶ worker 0 … n     each with its own manager and RPC server;
                                      worker 0 also sends the service heartbeats and does other periodic work

=======  ===============================================  ==============================================
signal   to the master                                    to a worker
=======  ===============================================  ==============================================
SIGTERM  the same to all workers, then exit 0             stop consuming and claiming, finish the requests
                                                          in progress or return them to the broker, exit 0
SIGINT   all exit 1 at once                               exit 1 at once
SIGHUP   try the changed options, take them over if a     take over what the master has accepted; read
         worker can start with them, the same to all      cells and open connections again; requests
         workers                                          continue
SIGUSR2  write a report                                   write a report
=======  ===============================================  ==============================================

======  ================================================================================================
status  of the daemon
======  ================================================================================================
0       stopped by SIGTERM
1       cannot start (the log says why), was interrupted, or did not end in graceful_shutdown_timeout
2       unknown argument on the command line
3       the API database could not be read within [berth]/database_start_timeout
======  ================================================================================================

Each worker reports to the master once a second; what the master does with that is in ``scheduler/health``.

The threading backend of oslo.service is cotyledon in a wrapper that ends a worker on SIGHUP. A SIGHUP must
not interrupt service, so cotyledon is used without the wrapper.
"""

from collections.abc import Callable, Iterable, Sequence
import contextlib
import dataclasses
import faulthandler
import gc
import math
import multiprocessing
import os
from pathlib import Path
import signal
import sys
import tempfile
import threading
import time
from typing import Any

import cotyledon
from oslo_config import cfg
from oslo_log import log as logging
from oslo_service import loopingcall
from oslo_utils import timeutils

from scheduler import conf as options
from scheduler import errors, reports
from scheduler.health.counters import Counters
from scheduler.health.monitor import Monitor
from scheduler.health.reporter import Reporter
from scheduler.health.reports import WorkerState

LOG = logging.getLogger(__name__)

#: Exit status of a worker that cannot start. Before the daemon was ready, it ends the daemon too.
START_FAILED = 1

#: Exit status of a worker that could not read the API database in time. It ends the daemon as well.
NO_DATABASE = 3

#: Seconds in which a manager must be built from changed options; otherwise they are refused.
TRIAL_TIMEOUT = 20.0

#: Objects created between two runs of the garbage collector. A request creates tens of thousands and releases
#: them. With the default of 700 the collector would traverse all host data at every second request.
COLLECT_AFTER = 10_000

#: Seconds between log lines of a stopping worker that still waits.
PROGRESS_INTERVAL = 10

#: Seconds of the time to stop that are kept for what follows the requests: background deletions, connections.
#: At most a quarter of the time is kept: nova gives requests no time at all if there are 20 s or fewer.
CLOSING_TIME = 20


@dataclasses.dataclass(frozen=True)
class Periodic:
    """Work that one process repeats: ``call()`` after ``delay`` seconds, then every ``interval`` seconds."""

    name: str
    call: Callable[[], None]
    interval: float
    delay: float = 0.0


@dataclasses.dataclass(frozen=True)
class Parts:
    """What a worker consists of, as functions that build it in the worker's own process.

    Attributes:
        manager: ``manager(conf)`` builds a manager without connecting to anything, or raises ``BerthError``
            for options that cannot work. It has start(), wait_until_ready(timeout), catch_up(), reset(), and
            at the end stop_claiming(), then stop(timeout).
        server: ``server(conf, manager, worker_id)`` builds a server. It has start(), which may wait for the
            broker without a bound; stop(), after which nothing is consumed; wait(), which returns when all
            that was consumed is answered; and transport.cleanup(), which closes the connections.
        periodics: ``periodics(conf, manager)`` returns the periodic work of worker 0.
        explanations: ``explanations(conf, manager, transport, worker_id)`` builds the server that answers
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


class Milestone:
    """A point in the start of workers. Each worker counts once, however often it is started again."""

    def __init__(self, context: Any, workers: int) -> None:
        """Create it before so many workers are forked; ``context`` is the multiprocessing context."""
        self._arrivals = context.Semaphore(0)
        self._arrived = context.RawArray("B", workers)

    @property
    def count(self) -> int:
        """The number of workers that have come so far."""
        return sum(self._arrived)

    def reach(self, worker_id: int) -> None:
        """Note that a worker has come so far."""
        # Also if it is there already: the process before it may have died between the two lines.
        self._arrived[worker_id] = 1
        self._arrivals.release()

    def wait_for_all(self, timeout: float | None = None) -> int:
        """Wait until all workers have come so far, ``timeout`` seconds at most.

        Returns:
            The number of those that have.
        """
        end = math.inf if timeout is None else time.monotonic() + timeout
        while self.count < len(self._arrived):
            left = None if timeout is None else max(0, end - time.monotonic())
            if not self._arrivals.acquire(timeout=left):
                break
        return self.count


class SharedState:
    """What the master and its workers tell each other.

    Attributes:
        loaded: Reached by each worker that has read the API database.
        serving: Reached by each worker that takes requests.
        accepted: How many changes of the options the master has taken over.
        reloads: How often the master has read the options again.
        monitor: Where workers report.
    """

    def __init__(self, context: Any, monitor: Monitor, workers: int) -> None:
        """Create it before so many workers are forked; ``context`` is the multiprocessing context."""
        self.monitor = monitor
        self.loaded = Milestone(context, workers)
        self.serving = Milestone(context, workers)
        # without locks, which a killed worker would keep
        self.accepted = context.RawValue("L", 0)
        self.reloads = context.RawValue("L", 0)


class DatabaseAway(errors.BerthError):
    """The API database could not be read in the time that a starting worker has."""


class Worker(cotyledon.Service):
    """One process that serves requests. cotyledon calls each method below in a thread of its own."""

    name = "scheduler"

    def __init__(
        self,
        worker_id: Any,
        conf: cfg.ConfigOpts,
        argv: Sequence[str],
        parts: Parts,
        shared: SharedState,
    ) -> None:
        super().__init__(worker_id)
        self.conf = conf
        self._argv = argv
        self._parts = parts
        self._shared = shared
        self._accepted = shared.accepted.value
        self._manager: Any = None
        self._server: Any = None
        self._explanations: Any = None
        self._loops: list[loopingcall.FixedIntervalLoopingCall] = []
        self._stopping = threading.Event()
        shared.monitor.close_in_child()
        self._reporter = Reporter(
            worker_id,
            shared.monitor.channel,
            parts.counters,
            lambda: parts.read_state(self._manager, self._server),
        )
        self._reporter.reloads = shared.reloads.value
        reports.install(conf)

    def run(self) -> None:
        """Start everything.

        Raises:
            SystemExit: The worker cannot start, with status START_FAILED, or with NO_DATABASE.
        """
        show_program_name()
        faulthandler.enable()  # the master ends a worker that hangs by SIGABRT: it writes the stack traces
        self._reporter.start()
        failure = self._attempt("cannot start", self._start)
        if failure:
            sys.exit(NO_DATABASE if isinstance(failure, DatabaseAway) else START_FAILED)
        self._reporter.phase = "serving"
        self._shared.serving.reach(self.worker_id)

    def terminate(self) -> None:
        """Stop gracefully. cotyledon exits with status 0 when this returns."""
        timer = timeutils.StopWatch(options.drain_timeout(self.conf))
        timer.start()
        LOG.info("Worker %d stops", self.worker_id)
        self._reporter.phase = "stopping"
        self._stopping.set()
        if self._manager is not None:
            self._manager.stop_claiming()
        for loop in self._loops:
            loop.stop()
        if self._server is not None:
            self._drain(timer)
        if self._manager is not None:
            self._manager.stop(timer.leftover())
        self._reporter.stop()
        LOG.info("Worker %d has stopped", self.worker_id)

    def reload(self) -> None:
        """Take over the options that the master has accepted, and reset the manager; requests continue."""
        LOG.info("Worker %d re-reads its configuration", self.worker_id)
        accepted = self._shared.accepted.value
        if accepted != self._accepted:
            self._accepted = accepted
            options.reload(self.conf, self._argv)
        if self._manager is not None:
            self._attempt("could not take over everything", self._manager.reset)
        self._reporter.reloads = self._shared.reloads.value

    def _attempt(self, complaint: str, call: Callable[[], None]) -> BaseException | None:
        """Call a function; log what it raises, and return it."""
        try:
            call()
        except errors.BerthError as error:
            failure = error
        except BaseException as error:  # also SystemExit, which a rule of an operator may raise
            LOG.exception("Worker %d %s", self.worker_id, complaint)
            return error
        else:
            return None
        # logged out here: oslo.log appends an error that is being handled to the line
        LOG.error("Worker %d %s: %s", self.worker_id, complaint, failure)
        return failure

    def _start(self) -> None:
        spare_the_collector()  # before the hosts are loaded, which creates millions of objects
        manager = self._parts.manager(self.conf)
        manager.start()
        self._manager = manager
        self._wait_for_database(manager)
        manager.catch_up()
        self._shared.loaded.reach(self.worker_id)
        spare_the_collector()
        LOG.info("Worker %d has loaded its view of the hosts and connects to the broker", self.worker_id)
        server = self._parts.server(self.conf, manager, int(self.worker_id))
        server.start()
        self._server = server
        LOG.info("Worker %d takes requests", self.worker_id)
        self._start_explanations(manager, server)
        if self.worker_id == 0:
            self._start_periodics(manager)

    def _start_explanations(self, manager: Any, server: Any) -> None:
        """Begin to answer questions about decisions; requests are served without that, too."""
        if self._parts.explanations is None:
            return
        try:
            explanations = self._parts.explanations(self.conf, manager, server.transport, int(self.worker_id))
            explanations.start()
        except Exception:
            LOG.exception("Worker %d answers no questions about decisions", self.worker_id)
        else:
            self._explanations = explanations

    def _wait_for_database(self, manager: Any) -> None:
        """Wait until the cells are known: before that every request would end with 'not enough hosts'."""
        if manager.wait_until_ready(0):
            return
        limit = self.conf.berth.database_start_timeout
        LOG.warning(
            "Worker %d waits for the API database, for at most %g seconds; it takes no requests before",
            self.worker_id,
            limit,
        )
        if not manager.wait_until_ready(limit):
            raise DatabaseAway(f"the API database could not be read within {limit:g} seconds")

    def _start_periodics(self, manager: Any) -> None:
        for work in self._parts.periodics(self.conf, manager):
            loop = loopingcall.FixedIntervalLoopingCall(self._unless_stopping(work))
            loop.start(work.interval, initial_delay=work.delay, stop_on_exception=False)
            self._loops.append(loop)

    def _unless_stopping(self, work: Periodic) -> Callable[[], None]:
        def call() -> None:
            if not self._stopping.is_set():
                work.call()

        call.__qualname__ = work.name  # by which the library calls it when it logs
        return call

    def _drain(self, timer: timeutils.StopWatch) -> None:
        # oslo.messaging waits without a bound, so it waits in a thread that can be abandoned
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

    def _finish_requests(self) -> None:
        self._server.stop()
        LOG.info("Worker %d takes no more requests", self.worker_id)
        if self._explanations is not None:
            self._explanations.stop()
        self._server.wait()
        self._server.transport.cleanup()


class Daemon:
    """The master process."""

    def __init__(self, conf: cfg.ConfigOpts, argv: Sequence[str], parts: Parts) -> None:
        """Prepare to run.

        Raises:
            ConfigError: ``[berth]/monitoring_listen`` is no address to listen on.
        """
        self.conf = conf
        self._argv = argv
        self._parts = parts
        self._workers = options.worker_count(conf)
        self._context = multiprocessing.get_context("fork")
        self._monitor = Monitor(conf, self._workers)
        self._shared = SharedState(self._context, self._monitor, self._workers)
        self._was_ready = threading.Event()
        self._failure: int | None = None

    def run(self) -> int | None:
        """Run until a signal ends the daemon.

        Returns:
            The exit status.
        """
        supervisor = cotyledon.ServiceManager(
            graceful_shutdown_timeout=self.conf.graceful_shutdown_timeout, mp_context=self._context
        )
        show_program_name()
        supervisor.register_hooks(
            on_reload=self._reload, on_dead_worker=self._worker_died, on_terminate=self._monitor.stopping
        )
        supervisor.add(Worker, self._workers, args=(self.conf, self._argv, self._parts, self._shared))
        self._monitor.start()
        threading.Thread(target=self._announce, daemon=True).start()
        try:
            supervisor.run()
        except SystemExit as end:
            self._monitor.stop()
            LOG.info("The daemon has stopped")
            return end.code if self._failure is None else self._failure  # type: ignore[return-value]
        return None

    def _announce(self) -> None:
        """Tell systemd when all workers take requests.

        A broker that is away delays this up to [berth]/ready_timeout, a database until workers give up.
        """
        self._shared.loaded.wait_for_all()
        serving = self._shared.serving.wait_for_all(self.conf.berth.ready_timeout)
        if serving < self._workers:
            text = f"Only {serving} of {self._workers} workers take requests so far"
            LOG.warning("%s", text)
        else:
            self._was_ready.set()
            text = f"All {self._workers} workers take requests"
            LOG.info("%s", text)
        self._monitor.ready(text)

    def _reload(self) -> None:
        """Take over changed options if a worker can start with them; the workers follow."""
        LOG.info("Re-reading the configuration")
        self._monitor.begin_reload()
        accepted = options.reload(self.conf, self._argv, self._try)
        if accepted:
            self._shared.accepted.value += 1  # after the options: a worker forked in between has them
        self._shared.reloads.value += 1
        self._monitor.end_reload(accepted=accepted)

    def _try(self, conf: cfg.ConfigOpts) -> None:
        try_in_child(self._context, self._parts.manager, conf)

    def _worker_died(self, _service_id: Any, worker_id: int, status: int) -> None:
        """End the daemon if its first start cannot succeed; later the worker is started again."""
        self._monitor.worker_ended(worker_id, status)
        if status in (START_FAILED, NO_DATABASE) and not self._was_ready.is_set() and self._failure is None:
            LOG.error("Worker %d could not start, the daemon ends", worker_id)
            self._failure = status
            os.kill(os.getpid(), signal.SIGTERM)


def try_in_child(
    context: Any, build: Callable[[cfg.ConfigOpts], Any], conf: cfg.ConfigOpts, timeout: float = TRIAL_TIMEOUT
) -> None:
    """Check in a child process that a manager can be built from changed options.

    Operators' rules are imported for that. They must not stay in the master, from which later workers are
    forked, nor be able to end or block it.

    Args:
        context: The multiprocessing context.
        build: Builds the manager.
        conf: The changed options.
        timeout: Seconds that this may take.

    Raises:
        ConfigError: It cannot be built; the text says why.
    """
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_build_and_report, args=(build, conf, sender), daemon=True)
    child.start()
    sender.close()
    try:
        refusal = receiver.recv() if receiver.poll(timeout) else f"no result within {timeout:g} seconds"
    except EOFError:
        refusal = "the rules ended the process in which they were loaded"
    finally:
        child.kill()
        child.join()
        receiver.close()
    if refusal:
        raise errors.ConfigError(refusal)


def _build_and_report(build: Callable[[cfg.ConfigOpts], Any], conf: cfg.ConfigOpts, sender: Any) -> None:
    # the handlers of the master would pass signals on to it
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    try:
        build(conf)
    except errors.BerthError as error:
        refusal = str(error)
    except BaseException as error:  # noqa: BLE001 - a rule of an operator may raise anything
        refusal = f"{type(error).__name__}: {error}"
    else:
        refusal = ""
    sender.send(refusal)


def show_program_name() -> None:
    """Make the name of the process that of the program again, by which probes and operators look for it.

    cotyledon sets a title, and with it the name: to the first 15 characters of the title, with its colon.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(Path(sys.argv[0]).name[:15])


def spare_the_collector() -> None:
    """Keep the garbage collector from traversing objects that live until the process ends."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


def check_temporary_directory(conf: cfg.ConfigOpts) -> None:
    """Check that a directory can be created in [DEFAULT]/tempdir.

    Raises:
        ConfigError: It cannot.
    """
    try:
        with tempfile.TemporaryDirectory(dir=conf.tempdir):
            pass
    except OSError as error:
        raise errors.ConfigError(
            f"[DEFAULT]/tempdir: no temporary directory can be created: {error}"
        ) from error
