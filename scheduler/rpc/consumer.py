"""Reads requests from RabbitMQ, and acknowledges or requeues calls: its thread alone touches the channel.

A call is acknowledged after its reply. If the process is killed, the broker delivers the message to another
scheduler. Casts are acknowledged on receipt. A call that was delivered before, or is requeued, is published
once more with the number of its runs: not all kinds of queues count them.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
import math
import threading
import time

from amqp import spec
from kombu import Message
from oslo_log import log as logging
from oslo_messaging import MessageDeliveryFailure

from scheduler.logs import RateLimitedLogger
from scheduler.request.past import Past
from scheduler.rpc import library, wire
from scheduler.rpc.bus import Bus

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between two looks whether there is anything to do on the channel, at least and at most. It is
#: looked at soon after a message, and then less and less often.
SHORTEST_WAIT, LONGEST_WAIT = 0.01, 0.5

#: Seconds after an error that is not one of the broker.
PAUSE_AFTER_ERROR = 1.0

#: Seconds in which the thread stops to read, and in which it ends.
STOP_TIMEOUT = 10.0

#: Calls that the preferred consumer has at most, for each that can run at once. The broker counts one until
#: its acknowledgement arrives, some milliseconds after the reply.
PREFERRED_SHARE = 1.25

#: Seconds in which the broker must confirm a call that is put into its queue once more.
SEND_TIMEOUT = 3.0

#: Seconds without a look at the connection after which its thread counts as stuck.
SILENT = 12.0

#: Seconds without a look at the connection after which this process was frozen, or its machine was; and for
#: how long after that what is received counts as sent meanwhile.
FROZEN, AFTER_FROST = 5.0, 30.0

#: Seconds without a call after which nothing is left of what was in the queue at the beginning.
QUIET = 5.0

#: Headers of a call that was delivered before, to this scheduler or another one: its sender says so, or a
#: scheduler that put it into the queue once more. The second one says how many of its runs had no end.
DELIVERED_BEFORE = "berth-redelivered"
RUNS = "berth-runs"


Task = Callable[[library.ReadingConnection], None]
"""What the thread that reads does on its connection."""


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


def is_redelivery(raw: Message) -> bool:
    """Return whether the last scheduler that had a message neither answered nor requeued it."""
    return bool(raw.delivery_info.get("redelivered"))


def was_delivered(raw: Message) -> bool:
    """Return whether a message was delivered before, as the broker or its sender says."""
    return is_redelivery(raw) or bool((raw.headers or {}).get(DELIVERED_BEFORE))


def runs_of(raw: Message) -> int:
    """Return how many schedulers had a message before, and neither answered nor requeued it."""
    counted = (raw.headers or {}).get(RUNS)
    return (counted if isinstance(counted, int) else 0) + is_redelivery(raw)


def _settle(raw: Message, send: Callable[[Message], None]) -> None:
    """Acknowledge or requeue a message; in the thread that reads."""
    try:
        if not raw.acknowledged:
            send(raw)
    except Exception as error:  # noqa: BLE001 - the connection is lost: the broker delivers it again
        LOG.info("Cannot acknowledge a message: %s", error)


def requeue(raw: Message) -> None:
    """Return a message to its queue.

    By ``nack``: quorum queues of RabbitMQ 4.3 count a message that is rejected as a failed delivery.
    """
    raw.channel.send_method(spec.Basic.Nack, "Lbb", (raw.delivery_tag, False, True))
    raw._state = "REQUEUED"  # noqa: SLF001 - as kombu's own


class Consumer:
    """Reads from the queues of a server. Any thread may use it.

    Attributes:
        priority: Of its consumers of calls.
        losses: How often what was received and not acknowledged went back to the broker.
        backlog: Which calls may have waited before.
    """

    def __init__(
        self,
        bus: Bus,
        on_call: Callable[[wire.Frame, Message, "Consumer", float, Past], None],
        on_cast: Callable[[wire.Frame], None],
    ) -> None:
        """Describe it; nothing is connected to yet.

        Args:
            on_call: Called with what each call is made of, in the reading thread; must not wait or raise.
            on_cast: Called with each cast, as above.
        """
        self._bus = bus
        self._on_call, self._on_cast = on_call, on_cast
        self.priority = 0
        self.backlog = Backlog()
        self._warnings = RateLimitedLogger(LOG)
        self._tasks: deque[Callable[[], None]] = deque()
        self._copies: dict[str, list[library.RabbitMessage]] = {}
        self._of_calls: list[library.QueueConsumer] = []
        self._connection: library.ReadingConnection | None = None
        self._stopping, self._closing = False, False
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    # -- life ------------------------------------------------------------------------------------------------

    def start(
        self, topic: str, server: str, fanout: str = "", priority: int = 0, rank: int = 0, threads: int = 1
    ) -> None:
        """Connect to the broker, which is waited for, declare the queues, and begin to read.

        Args:
            topic: Of calls. It has two consumers. One has little more calls than can run at once, and is the
                broker's first choice if it has the highest rank; by the other one each process gets its part
                of the calls that are left, and sends heartbeats to their callers.
            server: The name under which this process alone is called.
            fanout: The topic whose casts are taken; "" for none.
            priority: Of its consumers among those of the topic; the broker's default is 0.
            rank: What is added to it for so many calls as can run at once.
            threads: How many can.

        Raises:
            RuntimeError: The system has no thread left.
            Exception: The broker refuses the connection or a queue.
        """
        self.priority = priority
        # The process was not frozen before: it has read hosts, and decisions of others.
        self.backlog = Backlog()
        connection = self._bus.reader()
        for name in (topic, f"{topic}.{server}"):
            connection.declare_topic_consumer(self._bus.exchange, name, callback=self.receive)
        self._of_calls = connection.consumers
        for each in self._of_calls:
            each.priority, each.on_depth = lambda: self.priority, self.backlog.expect
        preferred = self._of_calls[0].another()
        preferred.priority, preferred.on_depth = lambda: self.priority + rank, None
        preferred.prefetch = math.ceil(threads * PREFERRED_SHARE)
        connection.add(preferred)
        self._of_calls.append(preferred)
        if fanout:
            connection.declare_fanout_consumer(fanout, self.receive)
        for each in connection.consumers:
            each.on_unreadable = self._refuse
        self._connection = connection
        thread = threading.Thread(target=self._run, args=(connection,), name="consumer", daemon=True)
        thread.start()
        self._thread = thread

    def stop(self) -> None:
        """Take no more calls: what comes meanwhile is returned. Casts are taken to the end."""
        self._stopping = True
        if self._thread is not None:
            self.do(self._cancel)
            self._stopped.wait(STOP_TIMEOUT)

    def close(self) -> None:
        """Acknowledge what was answered, and close the connection."""
        self._closing = True
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT)

    @property
    def connected(self) -> bool:
        """Whether there is a connection to the broker, and a thread that reads from it."""
        if self._connection is None or self.backlog.is_stuck:
            return False
        try:
            return bool(self._connection.connection.connected)
        except Exception:  # noqa: BLE001 - the reading thread may be replacing it
            return False

    @property
    def losses(self) -> int:
        """How often the channel was lost, and what was not acknowledged went back to the broker."""
        return 0 if self._connection is None else self._connection.losses

    def use_priority(self, priority: int) -> None:
        """Read calls with a priority from now on."""
        self.do(partial(self._use_priority, priority))

    def settle(self, raw: Message, losses: int, send: Callable[[Message], None]) -> None:
        """Acknowledge or requeue a message soon, unless the channel was lost since so many losses."""
        self.do(lambda: _settle(raw, send) if losses == self.losses else None)

    def publish_again(self, raw: Message, identity: str, losses: int) -> bool:
        """Put a call into its queue once more, with its runs so far, and acknowledge it after that.

        A copy that comes here before the acknowledgement is sent waits for it. If the copy ended this process
        at once, the broker would have the call twice.

        Returns:
            Whether the broker has confirmed it. If not, it may be in the queue all the same; here it is as
            before, neither answered nor acknowledged.
        """
        self._copies.setdefault(identity, [])
        headers: dict[str, object] = {DELIVERED_BEFORE: True, RUNS: runs_of(raw)}
        try:
            self._bus.publish_again(raw, time.monotonic() + SEND_TIMEOUT, headers)
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, the broker has the call
            LOG.info("Cannot put call %s into its queue once more: %.300s", identity, error)
            return False
        else:
            self.settle(raw, losses, Message.ack)
            return True
        finally:
            self.do(partial(self._take_copies, identity))

    def on_connection(self, task: Task) -> None:
        """Let the thread that reads do something on its connection soon."""
        self.do(lambda: None if self._connection is None else task(self._connection))

    def do(self, task: Callable[[], None]) -> None:
        """Let the thread that reads call a function soon."""
        self._tasks.append(task)

    # -- on the thread that reads ----------------------------------------------------------------------------

    def _run(self, connection: library.ReadingConnection) -> None:
        wait = SHORTEST_WAIT
        while not self._closing:
            try:
                self.do_tasks()
                connection.consume(timeout=wait)
                wait = SHORTEST_WAIT
            except library.Timeout:
                wait = min(2 * wait, LONGEST_WAIT)
            except MessageDeliveryFailure as error:
                LOG.error("Cannot read from the broker; trying again: %s", error)
                time.sleep(PAUSE_AFTER_ERROR)
            except Exception:
                LOG.exception("Cannot read requests; trying again")
                time.sleep(PAUSE_AFTER_ERROR)
        self.do_tasks()
        try:
            connection.close()
        except Exception as error:  # noqa: BLE001 - the broker closes it
            LOG.info("Cannot close a connection: %s", error)

    def do_tasks(self) -> None:
        """Do what waits for the channel; for the thread that reads."""
        self.backlog.look()
        while self._tasks:
            self._tasks.popleft()()

    def receive(self, message: library.RabbitMessage) -> None:
        """Take a message from the broker; in the thread that reads."""
        raw, frame = library.raw_of(message), wire.read(message)
        if not frame.msg_id:
            _settle(raw, Message.ack)
            self._on_cast(frame)
        elif self._stopping:
            _settle(raw, requeue)
        elif frame.identity and frame.identity in self._copies:
            self._copies[frame.identity].append(message)
        else:
            received, was_queued = self.backlog.receive()
            past = Past.REDELIVERED if was_delivered(raw) else Past.QUEUED if was_queued else Past.NONE
            self._on_call(frame, raw, self, received, past)

    def _take_copies(self, identity: str) -> None:
        for message in self._copies.pop(identity, ()):
            self.receive(message)

    def _use_priority(self, priority: int) -> None:
        if self._stopping or self._connection is None:
            return
        for consumer in self._of_calls:
            # What arrives meanwhile is taken.
            self._cancel_one(consumer)
            self._connection.add(consumer)
        self.priority = priority

    def _cancel(self) -> None:
        for consumer in self._of_calls:
            self._cancel_one(consumer)
        self._stopped.set()

    def _cancel_one(self, consumer: library.QueueConsumer) -> None:
        try:
            if self._connection is not None:
                self._connection.cancel(consumer)
        except Exception as error:  # noqa: BLE001 - the connection is lost, and nothing is consumed
            LOG.info("Cannot cancel a consumer: %s", error)

    def _refuse(self, error: Exception) -> None:
        self._warnings.warning(type(error).__name__, "Message rejected: %.200s", error)
        LOG.debug("Unreadable message", exc_info=error)
