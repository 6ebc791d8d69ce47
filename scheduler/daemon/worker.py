"""One process that serves requests: its start, its reload and its end."""

from collections.abc import Callable, Sequence
import faulthandler
import sys
import threading
import time
from typing import Any

import cotyledon
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import timeutils

from scheduler import conf as options
from scheduler import errors
from scheduler.bounds.background import BackgroundLoop
from scheduler.daemon import guru_meditation
from scheduler.daemon.parts import WorkerParts
from scheduler.daemon.process import show_program_name, spare_the_collector
from scheduler.daemon.shared_state import SharedState
from scheduler.health.reporter import Reporter

LOG = logging.getLogger(f"nova.{__name__}")

#: Exit status of a worker that cannot start. Before the daemon was ready, it ends the daemon too.
START_FAILED = 1

#: Exit status of a worker that could not read the API database in time. It ends the daemon as well.
NO_DATABASE = 3

#: Seconds between looks of a worker that waits for Placement whether it is stopped.
ABLE_INTERVAL = 1.0

#: Seconds between log lines of a stopping worker that still waits.
PROGRESS_INTERVAL = 10

#: Seconds of the time to stop that are kept for what follows the requests: background deletions, connections.
#: At most a quarter of the time is kept: nova gives requests no time at all if there are 20 s or fewer.
CLOSING_TIME = 20

CANNOT_STOP_EXPLANATIONS = "Worker %d cannot stop answering berth-explain: %s"


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
        parts: WorkerParts,
        shared: SharedState,
    ) -> None:
        super().__init__(worker_id)
        self.conf = conf
        self._argv = argv
        self._parts = parts
        self._shared = shared
        self._manager: Any = None
        self._server: Any = None
        self._explanations: Any = None
        self._periodics: list[BackgroundLoop] = []
        self._stopping = False
        shared.monitor.close_in_child()
        self._reporter = Reporter(
            worker_id,
            shared.monitor.channel,
            parts.counters,
            lambda: parts.read_state(self._manager, self._server),
        )
        self._reporter.reloads = shared.reloads.value
        # A file that was there when the daemon was started may be gone; requests are served without it.
        self._attempt("Worker %d cannot install the report on SIGUSR2: %s", self._install_report)

    def _install_report(self) -> None:
        report = guru_meditation.install(self.conf)
        guru_meditation.show_requests(
            report, lambda: self._parts.read_state(self._manager, self._server).requests
        )

    def run(self) -> None:
        """Start everything.

        Raises:
            SystemExit: The worker cannot start, with status START_FAILED, or with NO_DATABASE.
        """
        show_program_name()
        if sys.stderr is not None:  # as it is if the daemon was started with it closed
            # the master ends a worker that hangs by SIGABRT: it writes the stack traces
            faulthandler.enable()
        self._reporter.start()
        failure = self._attempt("Worker %d cannot start: %s", self._start)
        if self._stopping:
            return
        if failure:
            sys.exit(NO_DATABASE if isinstance(failure, DatabaseAway) else START_FAILED)
        self._reporter.enter("serving")

    def terminate(self) -> None:
        """Stop gracefully. cotyledon exits with status 0 when this returns."""
        timer = timeutils.StopWatch(options.drain_timeout(self.conf))
        timer.start()
        LOG.info("Worker %d is stopping", self.worker_id)
        self._stopping = True
        self._reporter.enter("stopping")
        self._stop_periodics()
        if self._manager is not None:
            self._manager.stop_claiming()
        if self._server is not None:
            self._drain(timer)
        if self._manager is not None:
            self._manager.stop(timer.leftover())
        self._reporter.stop()
        LOG.info("Worker %d has stopped", self.worker_id)

    def reload(self) -> None:
        """Take over the options that the master has accepted, and reset the manager; requests continue."""
        reloads = -1
        while reloads != self._shared.reloads.value:  # a SIGHUP that comes meanwhile is not handed on to here
            reloads = self._shared.reloads.value
            self._attempt("Worker %d cannot re-read its configuration: %s", self._take_over_options)
            if self._manager is not None:
                self._reset(self._manager)
            self._reporter.reloads = reloads

    def _take_over_options(self) -> None:
        accepted = self._shared.accepted.value
        if accepted == self._shared.taken_over:
            LOG.info("Worker %d keeps its options and opens connections again", self.worker_id)
            return
        LOG.info("Worker %d re-reads its configuration", self.worker_id)
        if options.reload(self.conf, self._argv):
            self._shared.taken_over = accepted

    def _reset(self, manager: Any) -> None:
        self._attempt("Worker %d cannot reload everything: %s", manager.reset)

    def _attempt(self, complaint: str, call: Callable[[], None]) -> BaseException | None:
        """Call a function; log what it raises, and return it."""
        try:
            call()
        except errors.BerthError as error:
            failure = error
        except BaseException as error:  # also SystemExit, which a rule of an operator may raise
            LOG.exception(complaint, self.worker_id, type(error).__name__)
            return error
        else:
            return None
        # logged out here: oslo.log appends an error that is being handled to the line
        LOG.error(complaint, self.worker_id, failure)
        return failure

    def _start(self) -> None:
        spare_the_collector()  # before the hosts are loaded, which creates millions of objects
        taken_over = self._shared.taken_over
        manager = self._parts.manager(self.conf)
        manager.start()
        self._manager = manager
        if self._shared.taken_over != taken_over:  # while there was no manager to notify
            self._reset(manager)
        self._wait_for_database(manager)
        manager.catch_up(int(self.worker_id))
        spare_the_collector()
        LOG.info("Worker %d has loaded the hosts; connecting to the broker", self.worker_id)
        server = self._parts.server(self.conf, manager, int(self.worker_id))
        # One that stops would return each request to the broker, and be handed it again.
        if self._stopping:
            return
        server.start()
        self._server = server
        if self._stopping:
            server.stop()
            return
        self._start_explanations(manager, server)
        if self.worker_id == 0:
            self._start_periodics(manager)
        while not (manager.wait_until_able(ABLE_INTERVAL) or self._stopping):
            pass  # the outage is in the log
        if not self._stopping:
            LOG.info("Worker %d takes requests", self.worker_id)

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
        explanations = self._parts.explanations(self.conf, manager, server, int(self.worker_id))
        if not self._attempt("Worker %d cannot answer berth-explain: %s", explanations.start):
            self._explanations = explanations

    def _wait_for_database(self, manager: Any) -> None:
        """Wait until the cells are known: before that every request would end with 'not enough hosts'."""
        if manager.wait_until_ready(0):
            return
        limit = self.conf.berth.database_start_timeout
        LOG.warning(
            "Worker %d waits for the API database before it takes requests, at most %g s",
            self.worker_id,
            limit,
        )
        if not manager.wait_until_ready(limit):
            raise DatabaseAway(f"the API database could not be read within {limit:g} seconds")

    def _drain(self, timer: timeutils.StopWatch) -> None:
        # oslo.messaging waits without a bound, so it waits in a thread that can be abandoned
        drain = threading.Thread(target=self._finish_requests, name="drain", daemon=True)
        drain.start()
        limit = timer.leftover()
        end = time.monotonic() + limit - min(CLOSING_TIME, limit / 4)
        while drain.is_alive() and time.monotonic() < end:
            drain.join(min(PROGRESS_INTERVAL, end - time.monotonic()))
            if drain.is_alive() and self._server.busy:
                LOG.info("Worker %d waits for the requests in progress", self.worker_id)
        if drain.is_alive() and self._server.busy:
            LOG.warning(
                "Worker %d: graceful shutdown timed out with requests in progress; the broker redelivers "
                "them",
                self.worker_id,
            )

    def _finish_requests(self) -> None:
        # at the same time: each waits until its reading thread looks at its connection again
        questions = threading.Thread(target=self._stop_explanations, name="stop explanations", daemon=True)
        self._attempt(CANNOT_STOP_EXPLANATIONS, questions.start)
        self._attempt("Worker %d cannot stop taking requests: %s", self._server.stop)
        LOG.info("Worker %d takes no more requests", self.worker_id)
        self._server.wait()
        if questions.is_alive():
            questions.join()
        self._server.transport.cleanup()

    def _stop_explanations(self) -> None:
        if self._explanations is not None:
            self._attempt(CANNOT_STOP_EXPLANATIONS, self._explanations.stop)
