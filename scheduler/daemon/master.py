"""The master process: starts the workers, watches them, and takes over changed options for them."""

from collections.abc import Sequence
import multiprocessing
import os
import signal
import sys
import threading
from typing import Any

import cotyledon
from oslo_config import cfg
from oslo_log import log as logging

from scheduler import conf as options
from scheduler.daemon.forking import WorkerContext
from scheduler.daemon.options_trial import try_in_child
from scheduler.daemon.parts import WorkerParts
from scheduler.daemon.process import show_program_name, spare_the_collector
from scheduler.daemon.shared_state import SharedState
from scheduler.daemon.worker import NO_DATABASE, START_FAILED, Worker
from scheduler.health.monitor import Monitor

LOG = logging.getLogger(f"nova.{__name__}")

#: Exit status of a daemon that could be given no worker, or whose workers did not end in time.
FAILED = 1

#: Seconds after graceful_shutdown_timeout, at which workers end themselves, until the master kills them.
TIME_TO_END = 2.0


class Master:
    """The process that forks the workers, and passes signals on to them."""

    def __init__(self, conf: cfg.ConfigOpts, argv: Sequence[str], parts: WorkerParts) -> None:
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
        self._shared = SharedState(self._context, self._monitor)
        self._failure: int | None = None

    def open_requests(self) -> list[str]:
        """Return the requests that the workers have in progress, as the report on SIGUSR2 shows them."""
        return [f"worker {worker}, {request}" for worker, request in self._monitor.workers.open_requests()]

    def run(self) -> int | None:
        """Run until a signal ends the daemon.

        Returns:
            The exit status.
        """
        supervisor = cotyledon.ServiceManager(
            graceful_shutdown_timeout=self.conf.graceful_shutdown_timeout,
            mp_context=WorkerContext(self._give_up),
        )
        show_program_name()
        supervisor.register_hooks(
            on_reload=self._reload, on_dead_worker=self._worker_died, on_terminate=self._stop
        )
        spare_the_collector()  # before the fork: workers go on to share what is not traversed
        # The command keeps it from coming before, when it would end the process.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        supervisor.add(Worker, self._workers, args=(self.conf, self._argv, self._parts, self._shared))
        self._monitor.start()
        try:
            supervisor.run()
        except SystemExit as end:
            # cotyledon leaves its alarm set, which would kill this process while it ends
            signal.alarm(0)
            self._monitor.stop()
            LOG.info("The daemon has stopped")
            return end.code if self._failure is None else self._failure  # type: ignore[return-value]
        return None

    def _reload(self) -> None:
        """Take over changed options if a worker can start with them; the workers follow."""
        LOG.info("Re-reading the configuration")
        self._monitor.begin_reload()
        for remark in options.misspelt_options(self.conf):
            LOG.warning("%s", remark)
        accepted = options.reload(self.conf, self._argv, self._try)
        if accepted:
            # after the options: a worker that is forked in between reads them once more
            self._shared.taken_over += 1
            self._shared.accepted.value = self._shared.taken_over
        self._shared.reloads.value += 1
        self._monitor.end_reload(accepted=accepted)

    def _try(self, conf: cfg.ConfigOpts) -> None:
        try_in_child(self._context, self._parts.manager, conf)

    def _worker_died(self, _service_id: Any, worker_id: int, status: int) -> None:
        """End the daemon if its first start cannot succeed; later the worker is started again."""
        self._monitor.worker_ended(worker_id, status)
        first_start = len(self._monitor.workers.served) < self._workers
        if status in (START_FAILED, NO_DATABASE) and first_start and self._failure is None:
            LOG.error("Worker %d could not start; stopping the daemon", worker_id)
            self._end(status)

    def _give_up(self, error: OSError) -> None:
        """End the daemon, which could not be given a worker, so that it is started again as a whole."""
        LOG.error("Cannot start a worker (%s); stopping the daemon", error)
        self._end(FAILED)
        sys.exit()  # this thread, which can do nothing more

    def _end(self, status: int) -> None:
        self._failure = status
        os.kill(os.getpid(), signal.SIGTERM)

    def _stop(self) -> None:
        """Bound the stop of the workers, which get the signal next: a frozen one does not end itself."""
        self._monitor.stopping()
        limit = self.conf.graceful_shutdown_timeout
        if limit > 0:
            killer = threading.Timer(limit + TIME_TO_END, self._kill_workers)
            killer.daemon = True
            killer.start()

    def _kill_workers(self) -> None:
        self._failure = FAILED
        for process in multiprocessing.active_children():
            LOG.error("Graceful shutdown of process %d timed out; killing it", process.pid)
            process.kill()
