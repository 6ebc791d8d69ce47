"""A master and its workers: started, killed, stopped and restarted as by cotyledon and a service manager."""

from collections.abc import Callable
from typing import Any

from tools.simulation.runtime import Process, Runtime

# Seconds from the end of a worker to the start of its successor.
WORKER_RESTART = 1.0

# Seconds from the end of a master to the start of its successor.
MASTER_RESTART = 3.0

# Worker starts in a history, which kills a few of them. With more, workers cannot start at all.
MOST_STARTS = 500


class Daemon:
    """Keeps workers running. All of it but the workers is a model.

    Args:
        runtime: For the clock.
        parts: Makes workers (``product.Parts``).
        workers: How many.
        patience: Seconds from SIGTERM until a worker is ended by its alarm; 0 for no bound.
        told: Called with a text for each event.
        name: The host that it runs on; "" if there is no other one.

    Attributes:
        alarms: Workers that were ended by their alarm, although they were never paused.
    """

    def __init__(
        self,
        runtime: Runtime,
        parts: Any,
        workers: int,
        patience: float,
        told: Callable[[str], None],
        name: str = "",
    ) -> None:
        self.name = name
        self._runtime = runtime
        self._parts = parts
        self._patience = patience
        self._told = told
        self._workers: list[Process | None] = [None] * workers
        self._terminating: set[Process] = set()
        self._products: dict[Process, Any] = {}
        self._incarnation = 0
        self._stopping = False
        self._starts = 0
        self.alarms: list[str] = []

    def start(self) -> None:
        """Start a master, which starts its workers."""
        self._incarnation += 1
        self._stopping = False
        for number in range(len(self._workers)):
            self._start_worker(number, self._incarnation)

    def worker(self, number: int) -> Process | None:
        """Return the process of a worker; None if it does not run. Numbers go round."""
        process = self._workers[number % len(self._workers)]
        return process if process is not None and process.alive else None

    def kill(self, number: int) -> None:
        """End a worker as SIGKILL does."""
        process = self.worker(number)
        if process is not None:
            self._told(f"SIGKILL to {process}")
            self._runtime.kill(process)

    def terminate(self, number: int) -> None:
        """Send SIGTERM to a worker."""
        process = self.worker(number)
        if process is None or process in self._terminating:
            return
        self._told(f"SIGTERM to {process}")
        self._terminating.add(process)
        process.stopping_since = self._runtime.clock
        product = self._products.get(process)
        if product is None:
            self._runtime.kill(process)
            return

        def stop() -> None:
            try:
                product.terminate()
                self._told(f"{process} has stopped")
            except RuntimeError as error:
                self._told(f"{process} cannot stop: {error}")
            self._runtime.kill(process)

        self._runtime.spawn(process, "terminate", stop)
        if self._patience:
            self._runtime.after(self._patience, self._alarm, process)

    def reload(self, number: int) -> None:
        """Send SIGHUP to a worker."""
        process = self.worker(number)
        product = self._products.get(process) if process else None
        if product is not None:
            self._told(f"SIGHUP to {process}")
            self._runtime.spawn(process, "reload", product.reload)

    def kill_master(self, absence: float = MASTER_RESTART) -> None:
        """End the master as SIGKILL does; the workers notice it, and a new master is started after that."""
        if self._stopping:
            return
        self._told("SIGKILL to the master")
        self._stopping = True
        for number in range(len(self._workers)):
            process = self.worker(number)
            if process is not None:
                delay = 0.3 * self._runtime.random.random()
                self._runtime.after(delay, self._runtime.kill, process)
        self._runtime.after(max(MASTER_RESTART, absence), self.start)

    def restart(self) -> None:
        """Stop the daemon as a service manager does, and start it again."""
        if self._stopping:
            return
        self._told("SIGTERM to the master")
        self._stopping = True
        for number in range(len(self._workers)):
            self.terminate(number)
        self._runtime.after(0.1, self._start_when_stopped)

    def _start_when_stopped(self) -> None:
        if any(self.worker(number) for number in range(len(self._workers))):
            self._runtime.after(0.5, self._start_when_stopped)
        else:
            self.start()

    def _start_worker(self, number: int, incarnation: int) -> None:
        if self._stopping or incarnation != self._incarnation or self.worker(number) is not None:
            return
        self._starts += 1
        if self._starts > MOST_STARTS:
            raise RuntimeError(f"workers were started {MOST_STARTS} times: do they fail at their start?")
        process = self._runtime.process(f"{self.name}worker {number}.{incarnation}")
        self._workers[number] = process
        process.at_exit.append(lambda: self._ended(number, incarnation))
        self._told(f"{process} starts")

        def main() -> None:
            product = self._parts.make_worker(number)
            self._products[process] = product
            try:
                product.run()
            except SystemExit as end:
                self._told(f"{process} exits with status {end.code}")
                self._runtime.kill(process)

        self._runtime.spawn(process, "main", main)

    def _ended(self, number: int, incarnation: int) -> None:
        self._runtime.after(WORKER_RESTART, self._start_worker, number, incarnation)

    def _alarm(self, process: Process) -> None:
        if process.alive:
            self._told(f"{process} is ended by its alarm")
            if not process.was_paused:
                self.alarms.append(process.name)
            self._runtime.kill(process)
