"""Calls whose reply queue is missing. They wait for it without a thread, so that others have the threads.

A reply queue is missing for seconds while its caller connects to another node of the broker, and for ever
once the caller has ended. So its calls keep no claims and wait. If the queue is there again, they are
returned to the broker, which delivers them once more. If it was missing for
``kombu_missing_consumer_retry_timeout``, which all calls of a queue share, they are dropped.
"""

from collections.abc import Callable
import threading
import time

from cachetools import TTLCache
from oslo_log import log as logging

from scheduler.bounds.background import BackgroundLoop, MakeLoop
from scheduler.logs import RateLimitedLogger
from scheduler.rpc.amqp.message import ConfirmedMessage, ReplyQueueMissing
from scheduler.rpc.calls import State

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between two looks at queues that are missing.
LOOK_INTERVAL = 0.5

#: Seconds that the thread sleeps while no call waits; a call wakes it.
IDLE = 3600.0

#: Seconds for which a queue that was found counts as there.
FOUND_FOR = 1.0

#: Seconds for which it is remembered since when a queue is missing, and the greatest number of such queues.
REMEMBERED_FOR = 600.0
MOST_REMEMBERED = 10_000


class ReplyQueues:
    """The calls that wait for their reply queue. Any thread may use it."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        make_loop: MakeLoop = BackgroundLoop,
    ) -> None:
        """Begin without a call."""
        self._clock = clock
        self._lock = threading.Lock()
        self._stopped = False
        self._waiting: dict[str, list[ConfirmedMessage]] = {}
        self._found: TTLCache[str, bool] = TTLCache(MOST_REMEMBERED, FOUND_FOR, clock)
        self._missing_since: TTLCache[str, float] = TTLCache(MOST_REMEMBERED, REMEMBERED_FOR, clock)
        self._loop = make_loop("reply-queues", self.look)
        self._warnings = RateLimitedLogger(LOG, clock=clock)

    def __len__(self) -> int:
        """Return the number of calls that wait."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def missing_since(self, call: ConfirmedMessage) -> float | None:
        """Return since when the reply queue of a call is missing; None if the call does not wait for it."""
        if call.state is not State.WAITS_FOR_REPLY_QUEUE:
            return None
        with self._lock:
            return self._missing_since.get(call.reply_q)

    def start(self) -> None:
        """Start the thread, before the first call is received.

        Raises:
            RuntimeError: The system has no thread left.
        """
        self._loop.start()

    def is_missing(self, call: ConfirmedMessage, *, certain: bool) -> bool:
        """Return whether the reply queue of a call is missing; one that cannot be looked for counts as there.

        Args:
            call: A ``ConfirmedMessage``.
            certain: Whether to query the broker even if the queue was not missing before.
        """
        with self._lock:
            found, suspect = call.reply_q in self._found, call.reply_q in self._missing_since
        return not found and (certain or suspect) and self._is_there(call) is False

    def wait(self, call: ConfirmedMessage) -> None:
        """Let a call wait, which keeps no claims, and is neither answered nor acknowledged."""
        call.state = State.WAITS_FOR_REPLY_QUEUE
        with self._lock:
            self._missing_since.setdefault(call.reply_q, self._clock())
            stopped = self._stopped
            if not stopped:
                self._waiting.setdefault(call.reply_q, []).append(call)
        if stopped:
            call.requeue()
        else:
            self._loop.wake()

    def stop(self) -> None:
        """Return all calls to the broker, now and from now on."""
        with self._lock:
            self._stopped = True
            waiting, self._waiting = self._waiting, {}
        self._loop.stop(0)
        for calls in waiting.values():
            for call in calls:
                call.requeue()

    def look(self) -> float:
        """Look at each queue that is missing; return the seconds until the next look."""
        with self._lock:
            first = [calls[0] for calls in self._waiting.values()]
        for call in first:
            there = self._is_there(call)
            if there is None:  # the broker is away; nothing is known of the other queues either
                break
            if there:
                self._end(call.reply_q, lambda waiting: waiting.requeue())
            elif self._is_given_up(call):
                calls = self._end(call.reply_q, _drop)
                self._warnings.warning(
                    "dropped", "Reply queue %s does not exist; calls dropped: %d", call.reply_q, calls
                )
        return LOOK_INTERVAL if self._waiting else IDLE

    def _is_given_up(self, call: ConfirmedMessage) -> bool:
        patience = call.listener.driver.missing_destination_retry_timeout
        with self._lock:
            now = self._clock()
            return now - self._missing_since.setdefault(call.reply_q, now) >= patience

    def _end(self, queue: str, end: Callable[[ConfirmedMessage], None]) -> int:
        with self._lock:
            calls = self._waiting.pop(queue, [])
        for call in calls:
            end(call)
        return len(calls)

    def _is_there(self, call: ConfirmedMessage) -> bool | None:
        """Return whether the broker has the reply queue of a call; None if that is not known."""
        try:
            there = bool(call.has_reply_queue())
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, it says nothing of the queue
            LOG.debug("Cannot look for reply queue %s: %s", call.reply_q, error)
            return None
        with self._lock:
            if there:
                self._found[call.reply_q] = True
                self._missing_since.pop(call.reply_q, None)
            else:
                self._missing_since.setdefault(call.reply_q, self._clock())
        return there


def _drop(call: ConfirmedMessage) -> None:
    """Acknowledge a call whose reply queue is given up; a redelivery checks the queue again."""
    call.undelivered = call.undelivered or ReplyQueueMissing("it was given up")
    call.settle()
