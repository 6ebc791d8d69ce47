"""CPU and memory of programs during a run."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
import contextlib
import os
import time
from typing import Self

import psutil

#: How the process that measures is called; its children are programs of their own.
CALLERS = "callers"


class Usage:
    """Looks at programs on entry and exit of the context.

    Attributes:
        memory_mb: The largest memory of each program in MiB that it does not share with others.
    """

    def __init__(self, programs: Callable[[], Iterable[tuple[str, int]]]) -> None:
        """Look at programs: names, and process IDs, each of which has its children with it."""
        self.memory_mb: dict[str, float] = {}
        self._programs = programs
        self._first: dict[tuple[str, psutil.Process], float] = {}
        self._last: dict[tuple[str, psutil.Process], float] = {}
        self._started = self._busy = 0.0
        self._others = 0.0

    def __enter__(self) -> Self:
        self._look()
        self._first = dict(self._last)
        self._started, self._busy = time.monotonic(), _busy_seconds()
        return self

    def __exit__(self, *exc_info: object) -> None:
        seconds, busy = time.monotonic() - self._started, _busy_seconds() - self._busy
        self._look()
        self._others = max(0.0, busy - sum(self.cpu_seconds().values())) / seconds

    @property
    def others(self) -> float:
        """Mean number of cores that were used by other programs, once the context has ended."""
        return self._others

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU seconds of each program since the entry."""
        found: Counter[str] = Counter()
        for (name, process), seconds in self._last.items():
            found[name] += seconds - self._first.get((name, process), 0.0)
        return dict(found)

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
        for name, pid in self._programs():
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                for each in (process, *process.children(recursive=True)):
                    yield name, each


def _busy_seconds() -> float:
    """Return the CPU seconds so far of all programs of the machine."""
    machine = psutil.cpu_times()
    return float(sum(machine) - machine.idle - getattr(machine, "iowait", 0.0))
