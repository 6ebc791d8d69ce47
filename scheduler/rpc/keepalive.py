"""The calls that are not answered yet: keeps them alive without a thread of the pool.

A round looks at all open calls, four times a second: whose caller is to hear a heartbeat, whose reply waits
until its queue is read, what is to be acknowledged as the broker would take its consumer for dead. What takes
time is done by a few senders, one reply queue at a time: a slow one delays no other.

A reply queue that nobody reads is that of a caller which connects to another node of the broker, for seconds,
or of one that has ended. Its calls wait without a thread, with their replies, which are sent once the queue
is read. If nobody reads it for ``kombu_missing_consumer_retry_timeout``, which all calls of a queue share,
they end.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
import math
import threading
import time

from cachetools import TTLCache
from oslo_log import log as logging

from scheduler.bounds.background import BackgroundLoop, MakeLoop
from scheduler.logs import RateLimitedLogger
from scheduler.request.past import Past
from scheduler.rpc import wire
from scheduler.rpc.bus import Bus
from scheduler.rpc.calls import Call, Event, State

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between two rounds, and those without a call; a new one wakes the thread. The shortest interval of
#: a caller is one second.
TICK, IDLE = 0.25, 3600.0

#: Reply queues that are looked after at the same time.
SENDERS = 4

#: Seconds that sending one heartbeat to a caller may take.
HEARTBEAT_TIMEOUT = 10.0

#: Seconds after which a call is acknowledged although it is not answered. A broker closes the channel of a
#: consumer that takes longer than its consumer_timeout, by default half an hour.
LONGEST_UNACKNOWLEDGED = 900.0

#: Seconds for which a queue that is read counts as such.
READ_FOR = 1.0

#: Seconds for which it is remembered since when a queue is not read, and the greatest number of such queues.
REMEMBERED_FOR, MOST_REMEMBERED = 600.0, 10_000


class ReplyQueues:
    """Which reply queues are read, and since when others are not. Any thread may use it."""

    def __init__(self, bus: Bus, clock: Callable[[], float]) -> None:
        self._bus, self._clock = bus, clock
        self._read: TTLCache[str, bool] = TTLCache(MOST_REMEMBERED, READ_FOR, clock)
        self._unread_since: TTLCache[str, float] = TTLCache(MOST_REMEMBERED, REMEMBERED_FOR, clock)
        self._lock = threading.Lock()

    def is_read(self, queue: str) -> bool | None:
        """Ask the broker whether anybody reads a queue; None if that is not known."""
        try:
            read = self._bus.is_read(queue)
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, it says nothing of the queue
            LOG.debug("Cannot look for reply queue %s: %s", queue, error)
            return None
        with self._lock:
            if read:
                self._read[queue] = True
                self._unread_since.pop(queue, None)
            else:
                self._unread_since.setdefault(queue, self._clock())
        return read

    def is_unread(self, queue: str, *, certain: bool) -> bool:
        """Return whether nobody reads a queue; one that cannot be looked at counts as read.

        Args:
            certain: Whether to query the broker even if the queue was read before.
        """
        with self._lock:
            read, suspect = queue in self._read, queue in self._unread_since
        return not read and (certain or suspect) and self.is_read(queue) is False

    def unread_since(self, queue: str) -> float:
        """Return since when a queue is not read, in seconds of the clock: since now, if that is new."""
        with self._lock:
            return self._unread_since.setdefault(queue, self._clock())


class OpenCalls:
    """The calls that are not answered yet. Any thread may use it.

    Attributes:
        queues: Which reply queues are read.
        in_flight: How many threads serve a call.
    """

    def __init__(
        self,
        threads: int,
        bus: Bus,
        go_on: Callable[[Call, Event | None], None],
        clock: Callable[[], float] = time.monotonic,
        make_loop: MakeLoop = BackgroundLoop,
    ) -> None:
        """Begin without a call.

        Args:
            threads: How many serve calls.
            go_on: Called with a call that has waited for a reader, and with its end; None if its queue is
                read.
        """
        self._threads, self._bus, self._go_on, self._clock = threads, bus, go_on, clock
        self.queues = ReplyQueues(bus, clock)
        self._lock = threading.Lock()
        self._calls: dict[Call, None] = {}
        self._moved_at = clock()
        self.in_flight = 0
        self._attended: set[str] = set()
        self._loop = make_loop("open-calls", self.look)
        self._senders = ThreadPoolExecutor(SENDERS, thread_name_prefix="sender")
        self._warnings = RateLimitedLogger(LOG, clock=clock)

    def __len__(self) -> int:
        """Return the number of calls that are not answered yet."""
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        """Iterate over the calls that there are now, in the order in which they were received."""
        with self._lock:
            return iter(list(self._calls))

    def start(self) -> None:
        """Start the threads, before the first call is received.

        Raises:
            RuntimeError: The system has no thread left.
        """
        self._loop.start()
        self._senders.submit(len, ())

    def stop(self) -> None:
        """Look after no call any more."""
        self._loop.stop(0)
        self._senders.shutdown(wait=False)

    def add(self, call: Call) -> None:
        """Look after a call that was just received; its caller hears heartbeats from now on."""
        interval = self._interval(call.frame.timeout)
        # From processes that had the message before its caller may have heard nothing for as long.
        is_late = call.past is Past.REDELIVERED and interval < math.inf
        call.beat_at, call.beat_interval = self._clock() + (0.0 if is_late else interval), interval
        with self._lock:
            self._calls[call] = None
            is_first = len(self._calls) == 1
        if is_first:
            self._loop.wake()

    def remove(self, call: Call) -> None:
        """Forget a call: it is over."""
        with self._lock:
            self._calls.pop(call, None)

    def holds(self, message_id: str) -> bool:
        """Return whether there is a call of a message that the broker does not have again."""
        same = (call for call in self if message_id and call.message_id == message_id)
        return any(call.is_current and not call.is_acknowledged for call in same)

    def wait(self, call: Call) -> None:
        """Let a call wait until its reply queue is read."""
        call.since = self.queues.unread_since(call.frame.reply_queue)
        call.state = State.WAITS_FOR_READER

    def take(self, call: Call) -> bool:
        """End the wait of a call for a reader of its reply queue; return whether it waited."""
        with self._lock:
            waited = call.state is State.WAITS_FOR_READER
            if waited:
                call.state = State.WAITS_FOR_THREAD
        return waited

    # -- a round ---------------------------------------------------------------------------------------------

    def look(self) -> float:
        """Do what is due; return the seconds until the next round."""
        now, due = self._clock(), dict[str, list[Call]]()
        for call in self:
            if call.received + LONGEST_UNACKNOWLEDGED < now and not call.is_acknowledged:
                call.acknowledge()
            if call.state is State.WAITS_FOR_READER or call.wants_heartbeat(now):
                due.setdefault(call.frame.reply_queue, []).append(call)
        for queue, calls in due.items():
            if queue not in self._attended:
                self._attended.add(queue)
                with suppress(RuntimeError):  # no thread is left for one more sender
                    self._senders.submit(self._attend, queue, calls)
        return TICK if len(self._calls) else IDLE

    def _attend(self, queue: str, calls: list[Call]) -> None:
        """Do what is due for the calls of one reply queue."""
        try:
            for call in calls:
                if call.state is not State.WAITS_FOR_READER and not self._beat(call):
                    break  # nor can those to the same queue be sent now
            self._look_for_reader(queue, [call for call in calls if call.state is State.WAITS_FOR_READER])
        except Exception:
            LOG.exception("Cannot look after the calls of reply queue %s", queue)
        finally:
            self._attended.discard(queue)

    def _beat(self, call: Call) -> bool:
        """Send a heartbeat; return whether that was possible."""
        frame, now = call.frame, self._clock()
        if not call.wants_heartbeat(now):
            return True
        call.beat_at = now + call.beat_interval
        try:
            message = wire.reply(frame, ending=False)
            self._bus.reply(frame.reply_queue, message, time.monotonic() + HEARTBEAT_TIMEOUT, to_reader=False)
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, the call itself goes on
            LOG.debug("Cannot send a heartbeat: %s", error)
            return False
        return True

    def _look_for_reader(self, queue: str, calls: list[Call]) -> None:
        """Let calls go on whose queue is read again, that were given up, or that the broker has again."""
        if not calls:
            return
        read = self.queues.is_read(queue)
        gone = read is False and self._clock() - self.queues.unread_since(queue) >= self._bus.patience
        if gone:
            self._warnings.warning(
                "gone", "Nobody reads reply queue %s; calls dropped: %d", queue, len(calls)
            )
        for call in calls:
            event = Event.RETURNED if call.is_lost else Event.CALLER_GONE if gone else None
            if (event or read) and self.take(call):
                self._go_on(call, event)

    def _interval(self, timeout: object) -> float:
        """Return half of a caller's timeout, in seconds; infinity if it is not set or not valid."""
        if not timeout:
            return math.inf
        try:
            interval = int(timeout) / 2  # type: ignore[call-overload]
        except (TypeError, ValueError, OverflowError):
            interval = 0.0
        if interval < 1:
            self._warnings.warning(
                "timeout",
                "Caller's timeout %.40r is not a number of at least 2 s; sending no heartbeats",
                timeout,
            )
            return math.inf
        return interval

    # -- what is shown ---------------------------------------------------------------------------------------

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Count a thread while it serves a call."""
        self._move(1)
        try:
            yield
        finally:
            self._move(-1)

    def touch(self) -> None:
        """Note progress within a call: an event of a claim, or a sign of a scheduler that was called."""
        self._move(0)

    def stalled(self) -> float:
        """Return the seconds for which no call was begun, ended or got on with; 0 if there is nothing to do.

        There is if no thread is free, or if calls wait although one is: then the threads are dead.
        """
        waiting = [call for call in self if call.state is not State.WAITS_FOR_READER]
        if self.in_flight < self._threads and len(waiting) <= self.in_flight:
            return 0.0
        return self._clock() - self._moved_at

    def _move(self, step: int) -> None:
        with self._lock:
            self.in_flight += step
            self._moved_at = self._clock()
