"""Work that a worker repeats while it serves requests."""

from collections.abc import Callable, Iterable
import dataclasses
from functools import partial

from scheduler.background import BackgroundLoop


@dataclasses.dataclass(frozen=True)
class Periodic:
    """Work that one process repeats: ``call()`` after ``delay`` seconds, then every ``interval`` seconds."""

    name: str
    call: Callable[[], None]
    interval: float
    delay: float = 0.0


class PeriodicLoops:
    """Repeats work, each in a thread of its own. A failure is logged, and the work is done again."""

    def __init__(self) -> None:
        """Begin with nothing to repeat."""
        self._loops: list[BackgroundLoop] = []
        self._stopping = False

    def start(self, works: Iterable[Periodic]) -> None:
        """Begin to repeat each of these."""
        for work in works:
            loop = BackgroundLoop(work.name, partial(self._round, work), pause_after_error=work.interval)
            self._loops.append(loop)
            loop.start(work.delay)

    def stop(self) -> None:
        """Begin nothing more. Does not wait for what is being done."""
        self._stopping = True
        for loop in self._loops:
            loop.stop(timeout=0)

    def _round(self, work: Periodic) -> float:
        if not self._stopping:
            work.call()
        return work.interval
