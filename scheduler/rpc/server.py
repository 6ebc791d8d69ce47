"""The RPC server on topic ``scheduler`` (spec: wire-and-config 1.1, 1.4)."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
import math
import time

from oslo_config import cfg
from oslo_log import log as logging
import oslo_messaging as messaging

from scheduler.bounds.outages import Lacks, Outages
from scheduler.decisions.open_requests import OpenCall
from scheduler.logs import RateLimitedLogger
from scheduler.request.past import Past
from scheduler.rpc import calls, endpoints, open_calls
from scheduler.rpc.activity import Activity
from scheduler.rpc.amqp import library
from scheduler.rpc.amqp import listener as amqp_listener
from scheduler.rpc.amqp.message import PERMANENT, ConfirmedMessage, Raised, ReplyQueueMissing
from scheduler.rpc.broker_errors import refusals_as_config_errors
from scheduler.rpc.dispatcher import Dispatcher
from scheduler.rpc.dropped_calls import DroppedCalls
from scheduler.rpc.errors import InternalError
from scheduler.rpc.heartbeats import Heartbeats
from scheduler.rpc.reply_queues import ReplyQueues
from scheduler.rpc.transport import TOPIC

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds for which a call must have waited for a thread before its reply queue is checked.
LONG_WAIT = 0.1

#: Schedulers that may have had a call and neither answered nor requeued it, as when it ends their process.
MOST_RUNS = 5

#: What one step of ``[berth] consumer_priority`` counts, and how many ranks there are below that: two of ten
#: schedulers draw the same one once in 20,000 starts, and share the requests then.
PRIORITY_STEP = 1 << 20

#: The priorities of schedulers that lack something, in these steps: below any ``consumer_priority``.
LOWERED = {Lacks.SOME_HOSTS: -101, Lacks.DEPENDENCY: -102}


class Server(library.RPCServer):
    """oslo.messaging's server, with heartbeats from the receipt of a message, and confirmed replies.

    ``start()`` begins to consume messages, ``stop()`` ends that, and ``wait()`` returns when all messages
    that were begun are answered. What a request claimed is kept if its reply was delivered, and released
    otherwise; the message is acknowledged after that. If it is not known whether the reply was delivered,
    what was claimed is kept, and the call requeued: its next run answers with what its instances hold. This
    holds also for a call that cannot be finished because the process stops. A call that the broker has again,
    after its channel was lost, ends without a reply.

    All threads are started before the first message is consumed: oslo.messaging starts them one by one with
    the messages, and loses a message for which none can be started.

    Attributes:
        heartbeats: The heartbeats of the calls that are not answered yet.
        activity: How busy its threads are.
        count: Counts messages that are not answered here: called with "refused" if one could not be read,
            "undelivered" if a reply was not delivered, "dropped" if a caller had left. To be set before it
            starts.
        topic: Where calls are taken; to be set before it starts.
        rank: Its place among the servers of the topic: the highest one gets calls first. Below
            ``PRIORITY_STEP``; to be set before it starts.
        takes_casts: Whether the casts to all schedulers are taken; to be set before it starts.
        outages: Says what lowers its priority; to be set before it starts, or None.
    """

    def __init__(
        self,
        transport: messaging.Transport,
        target: messaging.Target,
        dispatcher: library.RPCDispatcher,
        executor: str | None = None,
        *,
        heartbeats: Heartbeats,
        warnings: RateLimitedLogger,
    ) -> None:
        """Make a server as ``oslo_messaging.get_rpc_server`` calls for; ``executor`` is ignored."""
        self.heartbeats = heartbeats
        self._warnings = warnings
        self._reply_queues = ReplyQueues()
        self._dropped = DroppedCalls()
        self.topic: str = target.topic
        self.rank = 0
        self.takes_casts = True
        self.outages: Outages | None = None
        self.count: Callable[[str], None] = lambda _what: None
        self._late_listener: amqp_listener.LateListener | None = None
        super().__init__(
            transport,
            target,
            Dispatcher(dispatcher, heartbeats, warnings, lambda: self.count("refused")),
            "threading",
        )
        # The library's own looks for work every second in each of its threads, and loses a message for which
        # it cannot start one.
        self._executor_cls = partial(ThreadPoolExecutor, thread_name_prefix="request")
        self.activity = Activity(self.conf.executor_thread_pool_size)

    @property
    def connected(self) -> bool | None:
        """Whether messages are read from the broker; None if that is not known."""
        listener = self._late_listener
        return None if listener is None else listener.connected

    @property
    def unanswered(self) -> int:
        """The number of calls that were received and not answered yet."""
        listener = self._late_listener
        return 0 if listener is None else len(listener.deliveries)

    def open_calls(self) -> Iterator[OpenCall]:
        """Yield the calls that were received and not answered yet, with what they wait for."""
        listener = self._late_listener
        for call in () if listener is None else listener.deliveries.open():
            yield open_calls.describe(call, self._reply_queues.missing_since(call))

    @property
    def busy(self) -> bool:
        """Whether a message is handled, or a call not answered yet."""
        return self.activity.in_flight > 0 or self.unanswered > 0

    def stalled(self) -> float:
        """Return the seconds for which no message was begun, finished or got on with, although one waits."""
        return self.activity.stalled(self.unanswered - len(self._reply_queues))

    def _create_listener(self) -> library.PollStyleListenerAdapter:
        self._start_threads()
        with refusals_as_config_errors():
            berth = self.conf.berth
            listener = amqp_listener.listen(
                self.transport,
                self._target(topic=self.topic),
                berth.largest_message,
                berth.consumer_priority * PRIORITY_STEP,
                fanout=self._target.topic if self.takes_casts else "",
                rank=self.rank,
                threads=self.conf.executor_thread_pool_size,
            )
            if listener is None:
                return super()._create_listener()

            def lower(lacks: Lacks) -> None:
                steps = LOWERED.get(lacks, berth.consumer_priority)
                listener.use_priority(steps * PRIORITY_STEP)

            def stop() -> None:
                self._reply_queues.stop()
                self._dropped.log()

            listener.on_stop = stop
            self._late_listener = listener
            if self.outages is not None:
                self.outages.follow(lower, self.conf.executor_thread_pool_size)
            return library.PollStyleListenerAdapter(listener, 1, None)  # it starts the reading thread

    def _start_threads(self) -> None:
        """Start the heartbeats, the looks at reply queues, and a first thread of the pool.

        If the system has none for another one later, this one serves.

        Raises:
            RuntimeError: The system has no thread left.
        """
        self.heartbeats.start()
        self._reply_queues.start()
        self._work_executor.submit(_do_nothing)

    def _on_incoming(self, incoming: Sequence[library.RpcIncomingMessage]) -> None:
        for message in incoming:
            self.heartbeats.watch(message, _silence_before(message))
        super()._on_incoming(incoming)

    def _process_incoming(self, incoming: Sequence[library.RpcIncomingMessage]) -> None:
        message = incoming[0]
        with self.activity.message():
            if not isinstance(message, ConfirmedMessage):
                self._run(incoming, calls.Call())
                return
            if event := self._not_run(message):
                self.heartbeats.release(message)
                self._end(message, calls.Call(), event)
                return
            self._run(incoming, self._call_of(message))

    def _not_run(self, message: ConfirmedMessage) -> calls.Event | None:
        """Return why a call is not run; None if it is."""
        elsewhere = message.listener.stopping or message.outranked
        if message.is_lost or (elsewhere and message.can_be_requeued):
            return calls.Event.NOT_BEGUN
        if self._is_caller_missing(message):
            return calls.Event.NO_CALLER
        if message.runs >= MOST_RUNS:
            return calls.Event.POISON
        # Once it runs, it may be too late to count.
        return calls.Event.COUNTED if message.is_redelivery and message.publish_again() else None

    def _run(self, incoming: Sequence[library.RpcIncomingMessage], call: calls.Call) -> None:
        message, event = incoming[0], None
        token = calls.CURRENT.set(call)
        try:
            message.state = calls.State.RUNS
            super()._process_incoming(incoming)
        except calls.NotAnswered as reason:
            event = reason.event
            LOG.info("Requeueing call %s: %s", message.msg_id, reason)
        finally:
            calls.CURRENT.reset(token)
            self._end(message, call, event or _event_of(message))
            call.forget_message()

    def _end(self, message: library.RpcIncomingMessage, call: calls.Call, event: calls.Event) -> None:
        """Do what ``calls.ENDS`` says."""
        if call.dropped:
            self._dropped.note(call.dropped)
            self.count("dropped")
        if event in _WITHOUT_REPLY:
            self._note_undelivered(message, event)
        call.end_claims(event)
        if not isinstance(message, ConfirmedMessage):
            return
        if event is calls.Event.POISON:
            poison = f"{message.runs} schedulers had it and did not answer it"
            LOG.error(
                "Answering call %s with an error instead of serving it again: %s", message.msg_id, poison
            )
            message.reply(failure=_failure(f"The request is not tried again: {poison}"))
        elif event is calls.Event.UNDELIVERABLE and isinstance(message.undelivered, PERMANENT):
            # another, smaller reply may still be delivered
            message.reply(failure=_failure(f"The reply cannot be sent: {message.undelivered}"))
        fate = calls.ENDS[event].message
        if fate is calls.Fate.ACKNOWLEDGE:
            message.settle()
        elif fate is calls.Fate.REQUEUE:
            message.requeue()
        elif fate is calls.Fate.WAIT:
            self._reply_queues.wait(message)

    def _note_undelivered(self, message: ConfirmedMessage, event: calls.Event) -> None:
        self.count("undelivered")
        error = message.undelivered
        if event in {calls.Event.UNCONFIRMED, calls.Event.UNKNOWN}:
            self._warnings.warning(
                "unconfirmed",
                "Reply %s was not confirmed; keeping its claims: %.300s",
                message.msg_id,
                error,
            )
        else:
            self._warnings.warning(
                type(error).__name__, "Reply %s was not delivered: %.300s", message.msg_id, error
            )

    def _is_caller_missing(self, message: ConfirmedMessage) -> bool:
        """Return whether the reply queue of a call is missing; it is checked if the call had to wait.

        A call with a past is run all the same: that releases what an earlier run has left.
        """
        if message.past or not (message.orig_msg_id and isinstance(message.reply_q, str)):
            return False
        waited = time.monotonic() - message.received
        return self._reply_queues.is_missing(message, certain=waited > LONG_WAIT)

    def _call_of(self, message: ConfirmedMessage) -> calls.Call:
        return calls.Call(
            message.unique_id or "",
            message.received,
            lambda: message.past,
            lambda: message.can_be_requeued,
            lambda: message.outranked,
        )


_WITHOUT_REPLY = {
    calls.Event.UNCONFIRMED,
    calls.Event.UNKNOWN,
    calls.Event.CALLER_GONE,
    calls.Event.UNDELIVERABLE,
}


def _event_of(message: library.RpcIncomingMessage) -> calls.Event:
    """Return what became of the reply to a call that was run."""
    error = message.undelivered if isinstance(message, ConfirmedMessage) else None
    if error is None:
        return calls.Event.REPLIED
    if message.is_unconfirmed:
        return calls.Event.UNCONFIRMED if message.can_be_requeued else calls.Event.UNKNOWN
    return calls.Event.CALLER_GONE if isinstance(error, ReplyQueueMissing) else calls.Event.UNDELIVERABLE


def _silence_before(message: library.RpcIncomingMessage) -> float:
    """Return for how many seconds the caller of a message that was just received may have heard nothing."""
    if not isinstance(message, ConfirmedMessage):
        return 0.0
    return math.inf if message.past is Past.REDELIVERED else 0.0


def _do_nothing() -> None:
    """Return at once."""


def _failure(text: str) -> Raised:
    """Return an error as oslo.messaging sends it."""
    error = InternalError(text)
    return (type(error), error, None)


def make(
    conf: cfg.ConfigOpts,
    transport: messaging.Transport,
    served: Sequence[object],
    serializer: messaging.Serializer | None = None,
    warnings: RateLimitedLogger | None = None,
    heartbeats: Heartbeats | None = None,
) -> Server:
    """Return a server of some endpoints, named ``[DEFAULT]/host``; not started.

    Args:
        transport: What ``transport.rpc_transport`` returned.
        serializer: Makes arguments and contexts of what was sent; None: the dicts of the message are passed.
        warnings: Logs refused messages.
        heartbeats: Sends heartbeats to callers; None: a new one with its own thread.
    """
    warnings = warnings or RateLimitedLogger(LOG)
    heartbeats = heartbeats or Heartbeats()
    made: Server = messaging.get_rpc_server(
        transport,
        messaging.Target(topic=TOPIC, server=conf.host),
        [*served, endpoints.Base(warnings)],
        serializer=serializer or messaging.NoOpSerializer(),
        access_policy=messaging.DefaultRPCAccessPolicy,
        server_cls=partial(Server, heartbeats=heartbeats, warnings=warnings),
    )
    return made
