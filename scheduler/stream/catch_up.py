"""How far the reading of the decision stream has come since the last subscription.

After each subscription this scheduler publishes a record, the *marker*: what is read before it comes back may
be older than the subscription.
"""

import math
import threading

from scheduler.stream.broker import StreamUnavailable

MOST_REFUSALS = 3
"""Refusals of the broker, one after the other, after which a start waits for the stream no longer."""


class CatchUp:
    """Knows whether all that was written before a subscription has been read. For the thread of the reader.

    Attributes:
        once: Whether that has been so, after any subscription.
        in_step: Whether own records came back, so that others' are seen too.
    """

    def __init__(self) -> None:
        """Begin before the first subscription."""
        self.once = False
        self.in_step = False
        self._marker = math.inf
        self._last_own = -1
        self._refusals = 0
        self._start_is_over = threading.Event()

    @property
    def is_replaying(self) -> bool:
        """Whether what is read may be older than the subscription."""
        return self._marker < math.inf

    def begin(self, marker: int) -> None:
        """Note a subscription.

        Args:
            marker: The counter of the record that was published after it.
        """
        self._marker = marker

    def is_new(self, counter: int, published: int) -> bool:
        """Return whether an own record was published here and not seen before.

        Args:
            counter: Its counter.
            published: How many records were published: others can write what names this scheduler.
        """
        return self._last_own < counter < published

    def advance(self, counter: int) -> None:
        """Note an own record that is new, by its counter, once it has had its effect."""
        self._last_own = counter
        if counter >= self._marker:
            self._marker = math.inf
            self.in_step = self.once = True
            self._refusals = 0
            self._start_is_over.set()

    def note_failure(self, error: StreamUnavailable) -> None:
        """Note that the stream cannot be read; a start does not wait for a broker that refuses."""
        self._refusals = self._refusals + 1 if error.refused else 0
        if self._refusals >= MOST_REFUSALS:
            self._start_is_over.set()

    def wait(self, timeout: float) -> bool:
        """Wait until ``once``, or until the broker refuses; any thread may.

        Args:
            timeout: Seconds that it may take.

        Returns:
            ``once``.
        """
        self._start_is_over.wait(timeout)
        return self.once
