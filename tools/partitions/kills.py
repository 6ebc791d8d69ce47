"""Schedulers that are killed during a run, and started again as systemd does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
import threading
import time
from typing import Self

from tools.partitions.cloud import READY, START_TIMEOUT
from tools.rig.cloud import SchedulerProcess

#: Seconds until a killed scheduler is started again, as ``RestartSec`` of its unit.
RESTART_AFTER = 5.0
LOOK_INTERVAL = 0.05


@dataclass(frozen=True)
class Kill:
    """One time that schedulers were killed.

    Attributes:
        schedulers: Their names.
        at: When; seconds since the epoch.
        back: When all of them took requests again.
    """

    schedulers: Sequence[str]
    at: float
    back: float


class Kills:
    """Kills one scheduler of each partition at given points, from entry to exit of the context.

    Attributes:
        done: Those that have happened.
    """

    def __init__(
        self,
        schedulers: Mapping[str, Sequence[SchedulerProcess]],
        points: Sequence[float],
        progress: Callable[[], float],
        restart_after: float = RESTART_AFTER,
    ) -> None:
        """Describe what is killed and when.

        Args:
            schedulers: Those of each partition.
            points: How many instances have hosts by then, in order.
            progress: Returns how many have hosts now.
            restart_after: Seconds until what was killed is started again.
        """
        self.done: list[Kill] = []
        self._schedulers = schedulers
        self._restart_after = restart_after
        self._points = points
        self._progress = progress
        self._stopping = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopping.set()
        self._thread.join()
        if self._error:
            raise self._error

    def _run(self) -> None:
        try:
            for number, point in enumerate(self._points):
                while self._progress() < point:
                    if self._stopping.wait(LOOK_INTERVAL):
                        return
                self._kill([group[number % len(group)] for group in self._schedulers.values()])
        except Exception as error:  # noqa: BLE001 - raised at the end of the context
            self._error = error

    def _kill(self, schedulers: Sequence[SchedulerProcess]) -> None:
        at = time.time()
        for scheduler in schedulers:
            scheduler.kill()
        lives = [scheduler.log.read_text().count(READY) for scheduler in schedulers]
        time.sleep(self._restart_after)
        for scheduler in schedulers:
            scheduler.start()
        for scheduler, before in zip(schedulers, lives, strict=True):
            scheduler.wait_for_line(READY, START_TIMEOUT, before + 1)
        self.done.append(Kill([each.log.stem for each in schedulers], at, time.time()))
