"""The RPC server on a topic (spec: wire-and-config 1.1, 1.4)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
import time

from oslo_config import cfg
from oslo_log import log as logging

from scheduler.bounds.background import BackgroundLoop, MakeLoop
from scheduler.bounds.outages import Lacks, Outages
from scheduler.logs import RateLimitedLogger
from scheduler.request.past import Past
from scheduler.rpc import library, wire
from scheduler.rpc.bus import Bus, MessageTooLarge, NobodyReads
from scheduler.rpc.calls import Call, Event, Fate, State
from scheduler.rpc.consumer import Consumer, Task
from scheduler.rpc.errors import InternalError
from scheduler.rpc.keepalive import OpenCalls
from scheduler.rpc.methods import Methods
from scheduler.rpc.transport import TOPIC, refusals_as_config_errors

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds for which a call must have waited for a thread before its reply queue is looked at.
LONG_WAIT = 0.1

#: Seconds between two attempts to send a reply.
RETRY_INTERVAL = 0.25

#: Schedulers that may have had a call and neither answered nor requeued it, as when it ends their process.
MOST_RUNS = 5

#: What one step of ``[berth] consumer_priority`` counts, and how many ranks there are below that: two of ten
#: schedulers draw the same one once in 20,000 starts, and share the requests then.
PRIORITY_STEP = 1 << 20

#: The priorities of schedulers that lack something, in these steps: below any ``consumer_priority``.
LOWERED = {Lacks.SOME_HOSTS: -101, Lacks.DEPENDENCY: -102}


class Server:
    """Serves calls: ``serve`` is the whole life of one.

    ``start()`` begins to consume messages, ``stop()`` ends that, and ``wait()`` returns when all that was
    begun is answered. The threads without which nothing works are started before the first message comes.

    Attributes:
        open_calls: The calls that are not answered yet.
        count: Counts messages that are not answered here: called with "refused" if one could not be read,
            "undelivered" if a reply was not delivered, "dropped" if a caller had left. To be set before it
            starts, as the others below.
        topic: Where calls are taken.
        rank: Its place among the servers of the topic: the highest one gets calls first. Below
            ``PRIORITY_STEP``; 0: they share them.
        outages: Says what lowers its priority, or None.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        bus: Bus,
        methods: Methods,
        topic: str = TOPIC,
        threads: int = 0,
        clock: Callable[[], float] = time.monotonic,
        make_loop: MakeLoop = BackgroundLoop,
    ) -> None:
        """Serve methods under the name ``[DEFAULT]/host``; nothing is started yet.

        Args:
            threads: How many calls run at once; 0: ``executor_thread_pool_size``.
        """
        self._conf, self.bus, self._methods = conf, bus, methods
        self._threads = threads or conf.executor_thread_pool_size
        self._clock = clock
        self._warnings = RateLimitedLogger(LOG, clock=clock)
        self.topic = topic
        self.rank = 0
        self.outages: Outages | None = None
        self.count: Callable[[str], None] = lambda _what: None
        methods.on_refusal = lambda: self.count("refused")
        self.open_calls = OpenCalls(self._threads, bus, self._submit, clock, make_loop)
        self._consumer = Consumer(bus, lambda *received: self.take(Call(*received)), methods.cast)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="request")
        self._stopping = False

    # -- life ------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Wait for the broker; raises ``ConfigError`` if it refuses the connection."""
        with refusals_as_config_errors():
            self.bus.reader().close()

    def start(self) -> None:
        """Connect to the broker, which is waited for, and begin to serve.

        Raises:
            RuntimeError: The system has no thread left.
            ConfigError: The broker refuses the connection or a queue.
        """
        self.open_calls.start()
        # If the system has no thread for another one later, this one serves.
        self._pool.submit(len, ())
        if self.outages is not None:
            self.outages.follow(self._lower, self._threads)
        with refusals_as_config_errors():
            self._consumer.start(
                self.topic,
                self._conf.host,
                TOPIC if self._methods.casts else "",
                self._conf.berth.consumer_priority * PRIORITY_STEP,
                self.rank,
                self._threads,
            )

    def _lower(self, lacks: Lacks) -> None:
        steps = LOWERED.get(lacks, self._conf.berth.consumer_priority)
        self._consumer.use_priority(steps * PRIORITY_STEP)

    def stop(self) -> None:
        """Take no more calls. What is not begun, or waits for a reader of its reply, is requeued."""
        self._stopping = True
        for call in self.open_calls:
            if self.open_calls.take(call):
                self._submit(call, _end_by_stop(call))
        self._consumer.stop()

    def wait(self) -> None:
        """Wait until all calls are answered that were begun, and close the connection."""
        self._pool.shutdown()
        self.open_calls.stop()
        self._consumer.close()

    def on_connection(self, task: Task) -> None:
        """Let the thread that reads do something on its connection soon, once it is started."""
        self._consumer.on_connection(task)

    @property
    def connected(self) -> bool:
        """Whether messages are read from the broker."""
        return self._consumer.connected

    # -- a call ----------------------------------------------------------------------------------------------

    def take(self, call: Call) -> None:
        """Begin to look after a call that was received; a thread of the pool serves it.

        Of a message that is in its queue several times one delivery is enough. While connections are lost
        again and again, each further one would be put into the queue once more.
        """
        if call.past is Past.REDELIVERED and self.open_calls.holds(call.message_id):
            LOG.info("Call %s was delivered twice; acknowledging the second delivery", call.frame.msg_id)
            call.acknowledge()
            return
        self.open_calls.add(call)
        self._submit(call, None)

    def _submit(self, call: Call, event: Event | None) -> None:
        """Let a thread of the pool serve a call, send its reply, or end it."""
        with suppress(RuntimeError):  # no thread is left for one more; those that there are take it
            self._pool.submit(self.serve, call, event)

    def serve(self, call: Call, event: Event | None = None) -> None:
        """Serve a call, or go on with it; never raises.

        Args:
            event: How it is to end, if that is known.
        """
        with self.open_calls.serving():
            try:
                if event is None:
                    event = self._send(call) if call.reply else self._not_run(call) or self._run(call)
                self._end(call, event)
            except Exception:
                LOG.exception("Cannot end call %s", call.message_id)

    def _not_run(self, call: Call) -> Event | None:
        """Return why a call is not run; None if it is."""
        if call.is_lost or call.outranked or (self._stopping and not call.is_acknowledged):
            return Event.RETURNED
        # A call with a past is run all the same: that releases what an earlier run has left.
        long = self._clock() - call.received > LONG_WAIT
        if not call.past and self.open_calls.queues.is_unread(call.frame.reply_queue, certain=long):
            return Event.NO_CALLER
        if call.runs >= MOST_RUNS:
            return Event.POISON
        # Once it runs, it may be too late to count.
        return Event.COUNTED if call.is_redelivery and call.publish_again() else None

    def _run(self, call: Call) -> Event:
        call.state = State.RUNS
        answer = self._methods.call(call)
        if answer.event or answer.failure:
            call.end_claims(Event.FAILED)
        if answer.event:
            return answer.event
        if call.is_lost:
            LOG.info("Requeueing call %s: %s", call.frame.msg_id, "its channel was lost")
            return Event.RETURNED
        try:
            call.reply = wire.reply(call.frame, answer.result, answer.failure)
        except (TypeError, ValueError, RecursionError) as error:
            return self._undelivered(call, error, maybe=False)
        return self._send(call)

    def _send(self, call: Call) -> Event:
        """Send the reply of a call until the broker has confirmed it; return what became of it."""
        call.since, call.state = self._clock(), State.REPLIES
        deadline, tried = time.monotonic() + self.bus.patience, False

        def note_try() -> None:
            nonlocal tried
            tried = True

        while True:
            try:
                self.bus.reply(call.frame.reply_queue, call.reply or {}, deadline, note_try)
                return Event.REPLIED
            except (MessageTooLarge, NobodyReads) as error:
                return self._undelivered(call, error, maybe=tried)
            except Exception as error:  # noqa: BLE001 - whatever the driver raises, the caller may have it
                note_try()
                if time.monotonic() >= deadline:
                    return self._undelivered(call, error, maybe=True)
            time.sleep(RETRY_INTERVAL)

    def _undelivered(self, call: Call, error: Exception, *, maybe: bool) -> Event:
        """Log that a reply was not delivered; return what becomes of it.

        Args:
            maybe: Whether its caller may have it all the same: an attempt to send it was not confirmed. Even
                if the broker refuses the next one.
        """
        self.count("undelivered")
        name = call.frame.msg_id
        if maybe:
            self._warnings.warning(
                "unconfirmed", "Reply %s was not confirmed; keeping its claims: %.300s", name, error
            )
            return Event.UNKNOWN if call.is_acknowledged else Event.UNCONFIRMED
        self._warnings.warning(type(error).__name__, "Reply %s was not delivered: %.300s", name, error)
        if isinstance(error, NobodyReads):
            return Event.UNREAD
        call.reply = _error_reply(call, f"The reply cannot be sent: {error}")
        return Event.UNDELIVERABLE

    def _end(self, call: Call, event: Event) -> None:
        """Do what ``calls.Event`` says."""
        if call.dropped:
            self._warnings.warning(call.dropped, "Dropped a call without serving it: %s", call.dropped)
            self.count("dropped")
            call.dropped = ""
        call.end_claims(event)
        if event is Event.POISON:
            poison = f"{call.runs} schedulers had it and did not answer it"
            LOG.error(
                "Answering call %s with an error instead of serving it again: %s", call.frame.msg_id, poison
            )
            call.reply = _error_reply(call, f"The request is not tried again: {poison}")
        if event in {Event.POISON, Event.UNDELIVERABLE}:
            self._send(call)
        if event.message is Fate.WAIT:
            self.open_calls.wait(call)
            if self._stopping and self.open_calls.take(call):
                self._end(call, _end_by_stop(call))
            return
        self.open_calls.remove(call)
        if event.message is Fate.ACKNOWLEDGE:
            call.acknowledge()
        elif event.message is Fate.REQUEUE:
            call.requeue()
        call.forget_message()


def _end_by_stop(call: Call) -> Event:
    """Return how a call ends that waits for a reader of its reply queue when the process stops."""
    if not call.is_acknowledged:
        return Event.RETURNED
    return Event.CALLER_GONE if call.reply is None else Event.UNKNOWN


def _error_reply(call: Call, text: str) -> dict[str, str]:
    """Return an error of the scheduler as a reply."""
    return wire.reply(call.frame, failure=library.failure_of(InternalError(text)))
