"""Calls to all cells at once, so that a cell that is away does not delay the others.

Every cell is called in a thread of its own. The circuit breaker of a cell that does not answer in time, or
cannot be connected to, opens: the cell is left out of all calls, and probed in the background at growing
intervals until it answers again (spec: host-state-and-cells 2.3).
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass
import threading
import time
from typing import Any

from oslo_db.exception import DBConnectionError
from oslo_log import log as logging

from scheduler.errors import BerthError
from scheduler.logs import brief
from scheduler.nova_db.cells import Cell

LOG = logging.getLogger(__name__)

# Seconds until the first probe of a cell that is left out. They double with each probe, up to a limit.
FIRST_PROBE = 1.0
MAX_PROBE_INTERVAL = 30.0


class CellUnavailable(BerthError):
    """A cell was not called, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class CellAnswer:
    """What the call of one cell returned, or the error that it raised."""

    value: Any = None
    error: Exception | None = None


class CircuitBreaker:
    """Whether one cell is worth calling.

    Attributes:
        open_reason: Why the cell is left out; None while it is called.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.open_reason: str | None = None
        self._clock = clock
        self._interval = FIRST_PROBE
        self._probe_at = 0.0

    def trip(self, cell: Cell, reason: str) -> None:
        """Leave the cell out from now on."""
        if self.open_reason is None:
            LOG.warning("Cell %s is left out until it answers again: %s", cell, reason)
            self._probe_at = self._clock() + self._interval
        self.open_reason = reason

    def reset(self, cell: Cell) -> None:
        """Call the cell again."""
        if self.open_reason is not None:
            LOG.info("Cell %s answers again", cell)
        self.open_reason = None
        self._interval = FIRST_PROBE

    def probe_due(self) -> bool:
        """Tell whether to probe the cell now. If so, the next probe is due after twice the interval."""
        due = self._clock() >= self._probe_at
        if due:
            self._interval = min(self._interval * 2, MAX_PROBE_INTERVAL)
            self._probe_at = self._clock() + self._interval
        return due


class CellCalls:
    """Calls one function for many cells at the same time."""

    def __init__(self, timeout: Callable[[], float], clock: Callable[[], float] = time.monotonic) -> None:
        """Make no calls yet.

        Args:
            timeout: Returns the seconds that all calls of one ``scatter_gather`` may take together.
            clock: Seconds that only grow, for probes.
        """
        self._timeout = timeout
        self._clock = clock
        self._breakers: dict[str, CircuitBreaker] = {}

    def scatter_gather(
        self, cells: Iterable[Cell], function: Callable[[Cell], Any], *, probe: bool = False
    ) -> dict[str, CellAnswer]:
        """Call ``function`` for each cell.

        Args:
            cells: The cells.
            function: Called with a cell, in a thread of its own.
            probe: Call it now and then for the cells that are left out too. Such a call is not waited for, so
                the function has to keep what it finds.

        Returns:
            The answer of each cell, by uuid.
        """
        cells = list(cells)
        closed = [cell for cell in cells if self._breaker(cell).open_reason is None]
        if probe:
            for cell in cells:
                breaker = self._breaker(cell)
                if breaker.open_reason is not None and breaker.probe_due():
                    self._start(function, cell)
        futures = {cell.uuid: self._start(function, cell) for cell in closed}
        wait(futures.values(), timeout=self._timeout())
        return {cell.uuid: self._answer(cell, futures.get(cell.uuid)) for cell in cells}

    def reset_breakers(self) -> None:
        """Call all cells again."""
        self._breakers = {}

    def _breaker(self, cell: Cell) -> CircuitBreaker:
        return self._breakers.setdefault(cell.uuid, CircuitBreaker(self._clock))

    def _start(self, function: Callable[[Cell], Any], cell: Cell) -> Future[CellAnswer]:
        future: Future[CellAnswer] = Future()
        name = f"cell-{cell.name or cell.uuid}"
        thread = threading.Thread(target=self._run, args=(future, function, cell), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no thread left
            future.set_result(CellAnswer(error=error))
        return future

    def _run(self, future: Future[CellAnswer], function: Callable[[Cell], Any], cell: Cell) -> None:
        breaker = self._breaker(cell)
        try:
            value = function(cell)
        except Exception as error:  # noqa: BLE001 - any error is this cell's answer
            if isinstance(error, DBConnectionError):
                breaker.trip(cell, brief(error))
            future.set_result(CellAnswer(error=error))
        else:
            breaker.reset(cell)
            future.set_result(CellAnswer(value))

    def _answer(self, cell: Cell, future: Future[CellAnswer] | None) -> CellAnswer:
        if future is None:
            return CellAnswer(error=CellUnavailable(f"not called: {self._breaker(cell).open_reason}"))
        if not future.done():
            reason = f"no answer within {self._timeout():g} seconds"
            self._breaker(cell).trip(cell, reason)
            return CellAnswer(error=CellUnavailable(reason))
        return future.result()
