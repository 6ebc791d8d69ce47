"""Which calls may have waited while nobody could receive them, so that their callers may have left."""

import time

#: Seconds without a look at the connection after which its thread counts as stuck.
SILENT = 12.0

#: Seconds without a look at the connection after which this process was frozen, or its machine was; and for
#: how long after that what is received counts as sent meanwhile.
FROZEN, AFTER_FROST = 5.0, 30.0

#: Seconds without a call after which nothing is left of what was in the queue at the beginning.
QUIET = 5.0


class Backlog:
    """What was in the queues before this process read from them, or while it was frozen.

    For the reading thread; any thread may read whether it is stuck.
    """

    def __init__(self) -> None:
        self._read_at = self._received_at = time.monotonic()
        self._expected = 0
        self._frozen_until = 0.0

    @property
    def is_stuck(self) -> bool:
        """Whether the reading thread has not looked at its connection for long."""
        return time.monotonic() - self._read_at > SILENT

    def expect(self, number: int) -> None:
        """Note that the next calls, so many, were in a queue before it was read from."""
        self._expected += number
        self._received_at = time.monotonic()

    def look(self) -> float:
        """Note that the reading thread runs; return the time."""
        now = time.monotonic()
        if now > self._read_at + FROZEN:
            self._frozen_until = now + AFTER_FROST
        if now > self._received_at + QUIET:
            self._expected = 0
        self._read_at = now
        return now

    def receive(self) -> tuple[float, bool]:
        """Note that a call is received; return the time, and whether it may have waited."""
        expected, now = self._expected, self.look()
        self._received_at, self._expected = now, max(0, expected - 1)
        return now, expected > 0 or now < self._frozen_until
