"""Calls to all cells at once, so that a cell that is away does not delay the others.

Every cell is called in a thread of its own. The circuit breaker of a cell that does not answer in time, or
cannot be connected to, opens: the cell is left out of all calls, and probed in the background at growing
intervals until it recovers (spec: host-state-and-cells 2.3). A call that hangs ends when
``connection_watch`` closes its connection; until then it counts, and the number of calls is bounded.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
import threading
import time
from typing import Any

from oslo_db.exception import DBConnectionError

from scheduler.bounds import deadline
from scheduler.bounds.circuit_breaker import CircuitBreaker
from scheduler.bounds.waits import waiting_for
from scheduler.errors import BerthError
from scheduler.logs import brief
from scheduler.nova_db.cells import Cell

# Calls of one cell that are under way, those that hang included. Beyond that number none is started.
MAX_CALLS_A_CELL = 100

#: Cells that are named of those that are waited for.
NAMED = 5


class CellUnavailable(BerthError):
    """A cell was not called, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class CellAnswer:
    """What the call of one cell returned, or the error that it raised."""

    value: Any = None
    error: Exception | None = None


class CellCalls:
    """Calls one function for many cells at the same time.

    Attributes:
        timeout: Returns the seconds that all calls of one ``scatter_gather`` may take together.
    """

    def __init__(self, timeout: Callable[[], float], clock: Callable[[], float] = time.monotonic) -> None:
        """Make no calls yet.

        Args:
            timeout: Returns the seconds that all calls of one ``scatter_gather`` may take together.
            clock: Seconds that only grow, for probes.
        """
        self.timeout = timeout
        self._clock = clock
        self._breakers: dict[str, CircuitBreaker] = {}
        self._lock = threading.Lock()
        self._under_way: Counter[str] = Counter()

    def scatter_gather(
        self,
        cells: Iterable[Cell],
        function: Callable[[Cell], Any],
        *,
        probe: bool = False,
        left_out_too: bool = False,
    ) -> dict[str, CellAnswer]:
        """Call ``function`` for each cell, and wait for the answers until the deadline of the request.

        Args:
            function: Called with a cell, in a thread of its own.
            probe: Call it now and then for the cells that are left out too. Such a call is not waited for, so
                the function has to keep what it finds.
            left_out_too: Call the cells that are left out as well, and wait for them.

        Returns:
            The answer of each cell, by uuid.
        """
        cells = list(cells)
        called = [cell for cell in cells if left_out_too or self.left_out(cell) is None]
        if probe:
            for cell in cells:
                if self.left_out(cell) is not None and self._breaker(cell).probe_due():
                    self._start(function, cell)
        futures = {cell.uuid: self._start(function, cell) for cell in called}
        with waiting_for(partial(_unanswered, called, futures)):
            wait(futures.values(), timeout=deadline.current().bound(self.timeout()))
        return {cell.uuid: self._answer(cell, futures.get(cell.uuid)) for cell in cells}

    def left_out(self, cell: Cell) -> str | None:
        """Return why a cell is left out; None while it is called."""
        return self._breaker(cell).open_reason

    def reset_breakers(self) -> None:
        """Call all cells again."""
        self._breakers = {}

    def _breaker(self, cell: Cell) -> CircuitBreaker:
        breaker = self._breakers.get(cell.uuid)
        return breaker or self._breakers.setdefault(cell.uuid, CircuitBreaker(f"Cell {cell}", self._clock))

    def _start(self, function: Callable[[Cell], Any], cell: Cell) -> Future[CellAnswer]:
        future: Future[CellAnswer] = Future()
        name = f"cell-{cell.name or cell.uuid}"
        thread = threading.Thread(target=self._run, args=(future, function, cell), name=name, daemon=True)
        with self._lock:
            if self._under_way[cell.uuid] >= MAX_CALLS_A_CELL:
                error = CellUnavailable(f"{MAX_CALLS_A_CELL} calls of cell {cell} are under way")
                future.set_result(CellAnswer(error=error))
                return future
            self._under_way[cell.uuid] += 1
        try:
            thread.start()
        except RuntimeError as error:  # the system has no thread left
            self._ended(cell)
            future.set_result(CellAnswer(error=error))
        return future

    def _ended(self, cell: Cell) -> None:
        with self._lock:
            self._under_way[cell.uuid] -= 1

    def _run(self, future: Future[CellAnswer], function: Callable[[Cell], Any], cell: Cell) -> None:
        breaker, begun_at = self._breaker(cell), self._clock()
        try:
            value = function(cell)
        except Exception as error:  # noqa: BLE001 - any error is this cell's answer
            if isinstance(error, DBConnectionError):
                breaker.failed(brief(error), begun_at)
            answer = CellAnswer(error=error)
        else:
            breaker.reset()
            answer = CellAnswer(value)
        finally:
            self._ended(cell)
        future.set_result(answer)

    def _answer(self, cell: Cell, future: Future[CellAnswer] | None) -> CellAnswer:
        if future is None:
            return CellAnswer(error=CellUnavailable(f"cell {cell} is left out: {self.left_out(cell)}"))
        if future.done():
            return future.result()
        if deadline.current().expired:
            return CellAnswer(
                error=CellUnavailable(f"no answer of cell {cell} before the request's deadline")
            )
        reason = f"no answer within {self.timeout():g} seconds"
        self._breaker(cell).failed(reason)
        return CellAnswer(error=CellUnavailable(f"cell {cell}: {reason}"))


def _unanswered(cells: Sequence[Cell], futures: Mapping[str, Future[CellAnswer]]) -> str:
    """Return which cells have not answered yet."""
    names = [cell.name or cell.uuid for cell in cells if not futures[cell.uuid].done()]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"the database of cell {', '.join(names[:NAMED])}{more}"
