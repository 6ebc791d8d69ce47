"""How many writes Placement is sent at the same time: as many as it carries out quicker than fewer.

Where its database lets concurrent writes deadlock, as InnoDB does, one at a time is best. Elsewhere two or
more may be. So the number begins at one. While writes have to wait all the time, one more is tried now and
then; it stays if more consumers are served in the same time. A trial costs a second where writes deadlock, so
each that fails doubles the time until the next one.
"""

from collections.abc import Callable
import time

# A write that takes longer, in seconds, has probably met another one in Placement's database.
SLOW_WRITE = 1.0

# Writes, for each that is allowed, after which the rate is looked at. All are made while others wait.
WINDOW = 10

# Windows until the first trial, and the longest time between two; each failure doubles the time.
FIRST_TRIAL = 5
MOST_WINDOWS = 640

# One more write in flight stays if the rate becomes so much higher.
GAIN = 1.15


class WritesInFlight:
    """The number of writes that may be in flight. One thread at a time may use it.

    Attributes:
        limit: That number.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin at one.

        Args:
            most: The number is never larger.
            clock: Seconds that only grow.
        """
        self.limit = 1
        self._most = most
        self._clock = clock
        self._is_trial = False
        self._patience = FIRST_TRIAL
        self._windows_left = FIRST_TRIAL
        self._rate = 0.0
        self._unsettled = 0
        self._begin_window()

    def finished(self, consumers: int, seconds: float, *, others_wait: bool) -> None:
        """Learn from a write.

        Args:
            consumers: How many consumers it was of.
            seconds: How long it took.
            others_wait: Whether further ones wait for it. If not, the rate says nothing about Placement.
        """
        if self.limit > 1 and seconds > SLOW_WRITE:
            self._take_back()
        elif not others_wait:
            self._begin_window()
        elif self._unsettled:
            # It was begun while another number was allowed.
            self._unsettled -= 1
            self._begun = self._clock()
        else:
            self._writes += 1
            self._consumers += consumers
            if self._writes == WINDOW * self.limit:
                self._judge(self._consumers / max(self._clock() - self._begun, 1e-3))

    def _judge(self, rate: float) -> None:
        if self._is_trial and rate < GAIN * self._rate:
            self._take_back()
            return
        if self._is_trial:
            self._is_trial, self._patience, self._windows_left = False, FIRST_TRIAL, FIRST_TRIAL
        self._rate = rate
        self._windows_left -= 1
        if self._windows_left <= 0 and self.limit < self._most:
            self._is_trial = True
            self._unsettled = self.limit = self.limit + 1
        self._begin_window()

    def _take_back(self) -> None:
        self._unsettled = self.limit = self.limit - 1
        self._is_trial = False
        self._patience = min(2 * self._patience, MOST_WINDOWS)
        self._windows_left = self._patience
        self._begin_window()

    def _begin_window(self) -> None:
        self._begun = self._clock()
        self._writes = self._consumers = 0
