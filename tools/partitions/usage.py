"""CPU and memory of programs during a run, also of those that are killed meanwhile."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
import contextlib
import os
import threading
import time
from typing import Self

import psutil

from tools.side_by_side.measuring import busy_seconds

INTERVAL = 2.0
#: How the process that measures is called; its children are programs of their own.
CALLERS = "callers"


class Usage:
    """Looks at programs every few seconds, from entry to exit of the context.

    Attributes:
        memory_mb: The largest memory of each program in MiB that it does not share with others.
    """

    def __init__(self, programs: Callable[[], Mapping[str, int]], interval: float = INTERVAL) -> None:
        """Look at programs.

        Args:
            programs: Returns the process ID of each by its name; it has all children of that process.
            interval: Seconds between two looks.
        """
        self.memory_mb: dict[str, float] = {}
        self._programs = programs
        self._interval = interval
        self._first: dict[tuple[str, psutil.Process], float] = {}
        self._last: dict[tuple[str, psutil.Process], float] = {}
        self._started = self._busy = 0.0
        self._others = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._started, self._busy = time.monotonic(), busy_seconds()
        self._look()
        self._first = dict(self._last)
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._look()
        busy = busy_seconds() - self._busy - sum(self.cpu_seconds().values())
        self._others = max(0.0, busy) / (time.monotonic() - self._started)

    @property
    def others(self) -> float:
        """Mean number of cores that were used by other programs, once the context has ended."""
        return self._others

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU seconds of each program since the entry, of a killed one up to the last look."""
        found: Counter[str] = Counter()
        for (name, process), seconds in self._last.items():
            found[name] += seconds - self._first.get((name, process), 0.0)
        return dict(found)

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            self._look()

    def _look(self) -> None:
        memory: Counter[str] = Counter()
        for name, process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                self._last[name, process] = times.user + times.system
                memory[name] += process.memory_full_info().uss
        for name, size in memory.items():
            self.memory_mb[name] = max(self.memory_mb.get(name, 0.0), size / 2**20)

    def _processes(self) -> Iterator[tuple[str, psutil.Process]]:
        yield CALLERS, psutil.Process(os.getpid())
        for name, pid in self._programs().items():
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                for each in (process, *process.children(recursive=True)):
                    yield name, each
