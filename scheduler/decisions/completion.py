"""Completing explanations that need questions: after the request has ended, one at a time.

The caller of a request hears at once that there is no host. What Placement has to say about it is read in the
background, or at once when an operator asks for the decision.
"""

from collections import deque
from collections.abc import Callable
import threading

from scheduler.bounds.background import BackgroundLoop
from scheduler.bounds.waits import waiting_for
from scheduler.decisions.memory import KeptDecision

#: Decisions that wait for it: each keeps what its request saw. Of more the oldest stay incomplete.
MOST_WAITING = 16

#: Seconds for which an operator's question waits for an explanation; then it is answered without.
PATIENCE = 3.0

#: Seconds between two looks while nothing waits; ``add`` ends them early.
IDLE = 600.0


class Completion:
    """Decisions whose explanations are incomplete. Any thread may use it."""

    def __init__(
        self, complete: Callable[[KeptDecision], None], close: Callable[[KeptDecision], None]
    ) -> None:
        """Complete nothing yet.

        Args:
            complete: Completes the explanation of a decision; it takes a bounded time.
            close: Called once with each decision, when no more is found out about it.
        """
        self._complete = complete
        self._close = close
        self._waiting: deque[KeptDecision] = deque()
        self._current: KeptDecision | None = None
        self._changed = threading.Condition()
        self._loop = BackgroundLoop("explanations", self._complete_next)

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        """Leave what waits incomplete."""
        self._loop.stop()
        with self._changed:
            waiting, self._waiting = self._waiting, deque()
        for kept in waiting:
            self._close(kept)

    def add(self, kept: KeptDecision) -> None:
        with self._changed:
            self._waiting.append(kept)
            dropped = self._waiting.popleft() if len(self._waiting) > MOST_WAITING else None
        if dropped is not None:
            self._close(dropped)
        self._loop.wake()

    def complete_now(self, name: str = "", timeout: float = PATIENCE) -> None:
        """Complete the explanation of a request id or an instance next; without a name all that wait.

        Args:
            timeout: Seconds to wait for it.
        """
        with self._changed:
            named = [kept for kept in self._waiting if not name or kept.is_called(name)]
            self._waiting = deque(dict.fromkeys((*named, *self._waiting)))
        if not self._loop.running:
            for _ in named:
                self._complete_next()
            return
        self._loop.wake()
        with self._changed, waiting_for("the explanation of a decision"):
            self._changed.wait_for(lambda: not self._is_open(name), timeout)

    def _is_open(self, name: str) -> bool:
        return any(not name or kept.is_called(name) for kept in (*self._waiting, self._current) if kept)

    def _complete_next(self) -> float:
        with self._changed:
            kept = self._current = self._waiting.popleft() if self._waiting else None
        if kept is None:
            return IDLE
        try:
            self._complete(kept)
            self._close(kept)
        finally:
            with self._changed:
                self._current = None
                self._changed.notify_all()
        return 0.0
