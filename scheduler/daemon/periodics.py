"""Work that a worker repeats while it serves requests."""

from collections.abc import Callable, Iterable
import dataclasses
import threading

from oslo_service import loopingcall


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
        self._loops: list[loopingcall.FixedIntervalLoopingCall] = []
        self._stopping = threading.Event()

    def start(self, works: Iterable[Periodic]) -> None:
        """Begin to repeat each of these."""
        for work in works:
            loop = loopingcall.FixedIntervalLoopingCall(self._unless_stopping(work))
            loop.start(work.interval, initial_delay=work.delay, stop_on_exception=False)
            self._loops.append(loop)

    def stop(self) -> None:
        """Begin nothing more. Does not wait for what is being done."""
        self._stopping.set()
        for loop in self._loops:
            loop.stop()

    def _unless_stopping(self, work: Periodic) -> Callable[[], None]:
        def call() -> None:
            if not self._stopping.is_set():
                work.call()

        call.__qualname__ = work.name  # by which the library calls it when it logs
        return call
