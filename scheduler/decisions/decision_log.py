"""Decisions on disk: JSON lines in files of one process, which are only appended to, ended and removed.

A thread writes, so that no request waits for a disk. If it falls behind, decisions are dropped.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import BufferedWriter
import os
from pathlib import Path
import queue
import threading
import time

from oslo_log import log as logging

from scheduler.logs import OutageLog, RateLimitedLogger

LOG = logging.getLogger(f"nova.{__name__}")

SUFFIX = ".jsonl"
PREFIX = "decisions-"

#: Maximum number of decisions that wait to be written.
MOST_WAITING = 200

DAY = 86400.0


class DecisionLog:
    """Writes decisions in a thread of its own, which alone uses the file."""

    def __init__(
        self,
        directory: str,
        max_bytes: int,
        max_days: float,
        clock: Callable[[], float] = time.time,
        pid: int | None = None,
    ) -> None:
        """Open no file yet.

        Args:
            directory: It must exist.
            max_bytes: The size at which a file is ended.
            max_days: The age at which a file is ended, and after another such time removed.
            clock: Seconds since the epoch.
            pid: Part of the name, so that the files of daemons of one machine differ.
        """
        self._directory = Path(directory)
        self._max_bytes = max_bytes
        self._max_age = max_days * DAY
        self._clock = clock
        self._pid = os.getpid() if pid is None else pid
        self._number = 0
        self._file: BufferedWriter | None = None
        self._has_lines = False
        self._opened_at = 0.0
        self._queue: queue.Queue[Callable[[], bytes] | None] = queue.Queue(MOST_WAITING)
        self._outage = OutageLog(LOG, "Cannot write the decision log", "Decision log is written again")
        self._warnings = RateLimitedLogger(LOG)
        self._thread = threading.Thread(target=self._run, name="decision log", daemon=True)

    def write(self, line: bytes) -> None:
        """Append a line. It goes to a new file if this one is full, old or was removed.

        Raises:
            OSError: It cannot be written. The next line goes to a new file.
        """
        try:
            if self._file is None or self._is_over(self._file, len(line) + 1):
                self.close()
                self._file = self._open()
            self._file.write(line + b"\n")
            self._file.flush()
            self._has_lines = True
        except OSError:
            self._give_up()
            raise

    def close(self) -> None:
        ended, self._file = self._file, None
        if ended is not None:
            ended.close()

    def _is_over(self, file: BufferedWriter, size: int) -> bool:
        """Return whether the next line, of ``size`` bytes, goes to a new file."""
        return (
            file.tell() + size > self._max_bytes
            or self._clock() - self._opened_at > self._max_age
            or os.fstat(file.fileno()).st_nlink == 0
        )

    def _give_up(self) -> None:
        """End the file after a failed write. Remove an empty one: on a full disk each try would leave one."""
        if self._file is not None and not self._has_lines:
            with suppress(OSError):
                Path(self._file.name).unlink()
        self.close()

    def _open(self) -> BufferedWriter:
        self._remove_old()
        self._has_lines = False
        self._opened_at = self._clock()
        self._number += 1
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._opened_at))
        path = self._directory / f"{PREFIX}{stamp}-{self._pid}-{self._number}{SUFFIX}"
        return open(path, "ab", opener=partial(os.open, mode=0o640))

    def _remove_old(self) -> None:
        for path in self._directory.glob(f"{PREFIX}*{SUFFIX}"):
            try:
                if self._clock() - path.stat().st_mtime > self._max_age:
                    path.unlink()
            except FileNotFoundError:
                pass  # another daemon has removed it
            except OSError as error:
                self._warnings.warning("old", "Cannot remove an old file of the decision log: %s", error)

    def start(self) -> None:
        self._thread.start()

    def add(self, text: Callable[[], bytes]) -> None:
        """Write what ``text`` returns; it is called in the thread of the log."""
        try:
            self._queue.put_nowait(text)
        except queue.Full:
            self._warnings.warning("behind", "Decision log is behind; decisions are dropped")

    def stop(self, timeout: float) -> None:
        try:
            self._queue.put(None, timeout=timeout)
        except queue.Full:
            return
        self._thread.join(timeout)

    def _run(self) -> None:
        while (text := self._queue.get()) is not None:
            try:
                self.write(text())
            except OSError as error:
                self._outage.report_failure(error)
            else:
                self._outage.report_success()
        self.close()
