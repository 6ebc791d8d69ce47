"""Asking all cells at once, so that a dead one costs the others nothing.

Every cell is asked in a thread of its own. One that does not answer in time, or cannot be connected to,
becomes *suspect*: it is left out at once from then on, while it is probed in the background at growing
intervals, until it answers again. spec: host-state-and-cells 2.3
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

# Seconds between probes of a suspect cell; doubled each time.
FIRST_PROBE = 1.0
LAST_PROBE = 30.0


class CellUnavailable(BerthError):
    """A cell was not asked, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class CellAnswer:
    """What one cell said: a value, or the error in place of it."""

    value: Any = None
    error: Exception | None = None


class CircuitBreaker:
    """Whether one cell is worth asking."""

    def __init__(self) -> None:
        self.suspicion: str | None = None
        self._pause = FIRST_PROBE
        self._probe_at = 0.0

    def trip(self, cell: Cell, reason: str) -> None:
        if self.suspicion is None:
            LOG.warning("Cell %s is left out until it answers again: %s", cell, reason)
            self._probe_at = time.monotonic() + self._pause
        self.suspicion = reason

    def reset(self, cell: Cell) -> None:
        if self.suspicion is not None:
            LOG.info("Cell %s answers again.", cell)
        self.suspicion = None
        self._pause = FIRST_PROBE

    def probe_due(self) -> bool:
        """True at most once an interval."""
        due = time.monotonic() >= self._probe_at
        if due:
            self._pause = min(self._pause * 2, LAST_PROBE)
            self._probe_at = time.monotonic() + self._pause
        return due


class CellCalls:
    """Calls one function for many cells at once, each wait bounded by ``timeout`` seconds in all."""

    def __init__(self, timeout: Callable[[], float]) -> None:
        self._timeout = timeout
        self._breakers: dict[str, CircuitBreaker] = {}

    def gather(
        self, cells: Iterable[Cell], function: Callable[[Cell], Any], *, probe: bool = False
    ) -> dict[str, CellAnswer]:
        """The answer of each cell by uuid; never raises.

        With ``probe`` a suspect cell is called as well, now and then, but its answer is not waited for: such
        functions keep what they find.
        """
        cells = list(cells)
        trusted = [cell for cell in cells if self._breaker(cell).suspicion is None]
        if probe:
            for cell in cells:
                breaker = self._breaker(cell)
                if breaker.suspicion is not None and breaker.probe_due():
                    self._start(function, cell)
        futures = {cell.uuid: self._start(function, cell) for cell in trusted}
        wait(futures.values(), timeout=self._timeout())
        return {cell.uuid: self._answer(cell, futures.get(cell.uuid)) for cell in cells}

    def forget(self) -> None:
        """Suspect no cell any more."""
        self._breakers = {}

    def _breaker(self, cell: Cell) -> CircuitBreaker:
        return self._breakers.setdefault(cell.uuid, CircuitBreaker())

    def _start(self, function: Callable[[Cell], Any], cell: Cell) -> Future:
        future: Future = Future()
        name = f"cell-{cell.name or cell.uuid}"
        threading.Thread(target=self._run, args=(future, function, cell), name=name, daemon=True).start()
        return future

    def _run(self, future: Future, function: Callable[[Cell], Any], cell: Cell) -> None:
        breaker = self._breaker(cell)
        try:
            value = function(cell)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this cell's answer
            if isinstance(error, DBConnectionError):
                breaker.trip(cell, brief(error))
            future.set_exception(error)
        else:
            breaker.reset(cell)
            future.set_result(value)

    def _answer(self, cell: Cell, future: Future | None) -> CellAnswer:
        if future is None:
            return CellAnswer(error=CellUnavailable(f"not asked: {self._breaker(cell).suspicion}"))
        if not future.done():
            reason = f"no answer within {self._timeout():g} seconds"
            self._breaker(cell).trip(cell, reason)
            return CellAnswer(error=CellUnavailable(reason))
        error = future.exception()
        return CellAnswer(error=error) if error else CellAnswer(future.result())
