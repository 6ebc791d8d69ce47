"""The daemons of a host: started, killed, stopped and restarted as by a service manager."""

from collections.abc import Callable
from typing import Any

from tools.simulation.runtime import Process, Runtime

# Seconds from the end of a daemon to the start of its successor.
RESTART = 1.0

# Seconds from the end of all daemons of a host to the start of their successors.
HOST_RESTART = 3.0

# Starts in a history, which kills a few daemons. With more, they cannot start at all.
MOST_STARTS = 500


class Host:
    """Keeps the daemons of a host running. All of it but the daemons is a model.

    Args:
        runtime: For the clock.
        parts: Makes services (``product.Parts``).
        daemons: How many.
        patience: Seconds from SIGTERM until a daemon ends, whatever may hang; 0 for no bound.
        told: Called with a text for each event.
        name: The name of the host; "" if there is no other one.

    Attributes:
        alarms: Daemons that were ended by that bound, although they were never paused.
    """

    def __init__(
        self,
        runtime: Runtime,
        parts: Any,
        daemons: int,
        patience: float,
        told: Callable[[str], None],
        name: str = "",
    ) -> None:
        self.name = name
        self._runtime = runtime
        self._parts = parts
        self._patience = patience
        self._told = told
        self._daemons: list[Process | None] = [None] * daemons
        self._terminating: set[Process] = set()
        self._products: dict[Process, Any] = {}
        self._incarnation = 0
        self._stopping = False
        self._starts = 0
        self.alarms: list[str] = []

    def start(self) -> None:
        """Start the daemons."""
        self._incarnation += 1
        self._stopping = False
        for number in range(len(self._daemons)):
            self._start_daemon(number, self._incarnation)

    def daemon(self, number: int) -> Process | None:
        """Return the process of a daemon; None if it does not run. Numbers go round."""
        process = self._daemons[number % len(self._daemons)]
        return process if process is not None and process.alive else None

    def kill(self, number: int) -> None:
        """End a daemon as SIGKILL does."""
        process = self.daemon(number)
        if process is not None:
            self._told(f"SIGKILL to {process}")
            self._runtime.kill(process)

    def terminate(self, number: int) -> None:
        """Send SIGTERM to a daemon."""
        process = self.daemon(number)
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
                product.stop()
                self._told(f"{process} has stopped")
            except RuntimeError as error:
                self._told(f"{process} cannot stop: {error}")
            self._runtime.kill(process)

        self._runtime.spawn(process, "terminate", stop)
        if self._patience:
            self._runtime.after(self._patience, self._alarm, process)

    def reload(self, number: int) -> None:
        """Send SIGHUP to a daemon."""
        process = self.daemon(number)
        product = self._products.get(process) if process else None
        if product is not None:
            self._told(f"SIGHUP to {process}")
            self._runtime.spawn(process, "reload", product.reload)

    def kill_all(self, absence: float = HOST_RESTART) -> None:
        """End all daemons as SIGKILL does, as when the host goes down; they are started again after that."""
        if self._stopping:
            return
        self._told("SIGKILL to all daemons")
        self._stopping = True
        for number in range(len(self._daemons)):
            process = self.daemon(number)
            if process is not None:
                delay = 0.3 * self._runtime.random.random()
                self._runtime.after(delay, self._runtime.kill, process)
        self._runtime.after(max(HOST_RESTART, absence), self.start)

    def restart(self) -> None:
        """Stop the daemons as a service manager does, and start them again."""
        if self._stopping:
            return
        self._told("SIGTERM to all daemons")
        self._stopping = True
        for number in range(len(self._daemons)):
            self.terminate(number)
        self._runtime.after(0.1, self._start_when_stopped)

    def _start_when_stopped(self) -> None:
        if any(self.daemon(number) for number in range(len(self._daemons))):
            self._runtime.after(0.5, self._start_when_stopped)
        else:
            self.start()

    def _start_daemon(self, number: int, incarnation: int) -> None:
        if self._stopping or incarnation != self._incarnation or self.daemon(number) is not None:
            return
        self._starts += 1
        if self._starts > MOST_STARTS:
            raise RuntimeError(f"daemons were started {MOST_STARTS} times: do they fail at their start?")
        process = self._runtime.process(f"{self.name}daemon {number}.{incarnation}")
        self._daemons[number] = process
        process.at_exit.append(lambda: self._ended(number, incarnation))
        self._told(f"{process} starts")

        def main() -> None:
            product = self._parts.make_service(number)
            self._products[process] = product
            if status := product.start():
                self._told(f"{process} exits with status {status}")
                self._runtime.kill(process)

        self._runtime.spawn(process, "main", main)

    def _ended(self, number: int, incarnation: int) -> None:
        self._runtime.after(RESTART, self._start_daemon, number, incarnation)

    def _alarm(self, process: Process) -> None:
        if process.alive:
            self._told(f"{process} is ended by its bound")
            if not process.was_paused:
                self.alarms.append(process.name)
            self._runtime.kill(process)
