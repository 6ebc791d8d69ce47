"""Small reads that are made some at a time."""

from collections.abc import Callable, Iterator, Sequence
import contextvars
from dataclasses import dataclass, field
import threading
from typing import Generic, TypeVar

from scheduler.bounds import deadline
from scheduler.placement.errors import PlacementUnreachable

Found = TypeVar("Found")


def read_each(read: Callable[[str], Found], names: Sequence[str], at_once: int) -> dict[str, Found]:
    """Read what some names stand for, some at a time.

    Args:
        read: Reads one. It bounds its own time.
        at_once: How many are read at the same time at most; fewer if the system has no thread left.

    Returns:
        What was read, by name in the given order.

    Raises:
        PlacementUnreachable: The deadline has passed.
        Exception: What ``read`` raises.
    """
    reading = _Reading(read, iter(names))
    threads = []
    for _ in range(min(at_once, len(names)) - 1):
        run = contextvars.copy_context().run  # the deadline of the request is the thread's too
        thread = threading.Thread(target=run, args=(reading.work,), name="reads", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            break
        threads.append(thread)
    reading.work()
    for thread in threads:
        thread.join()
    if reading.error is not None:
        raise reading.error
    return {name: reading.found[name] for name in names}


@dataclass(slots=True)
class _Reading(Generic[Found]):
    """What several threads read together, each the next name that is left."""

    read: Callable[[str], Found]
    left: Iterator[str]
    found: dict[str, Found] = field(default_factory=dict)
    error: BaseException | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def work(self) -> None:
        try:
            while (name := self._next()) is not None:
                if deadline.current().expired:
                    raise PlacementUnreachable("the caller no longer waits for an answer")
                self.found[name] = self.read(name)
        except BaseException as error:  # noqa: BLE001 - the thread of the request raises it
            self.error = error
            with self.lock:
                self.left = iter(())

    def _next(self) -> str | None:
        with self.lock:
            return next(self.left, None)
