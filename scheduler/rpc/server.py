"""The RPC server on topic ``scheduler`` (spec: wire-and-config 1.1, 1.4)."""

from collections.abc import Callable
from functools import partial
import math
import time
from typing import Any, NamedTuple, Protocol

from oslo_config import cfg
from oslo_log import log as logging
import oslo_messaging as messaging
from oslo_messaging.rpc import dispatcher as library
from oslo_messaging.rpc import server

from scheduler.logs import RateLimitedLogger
from scheduler.message_runs import MessageRuns, NoRuns
from scheduler.outages import Outages
from scheduler.rpc import delivery, endpoints, forwarding
from scheduler.rpc.activity import Activity
from scheduler.rpc.amqp import listener as amqp_listener
from scheduler.rpc.amqp.message import ConfirmedMessage, ReplyQueueMissing
from scheduler.rpc.broker_errors import refusals_as_config_errors
from scheduler.rpc.dispatcher import Dispatcher
from scheduler.rpc.errors import InternalError
from scheduler.rpc.heartbeats import Heartbeats
from scheduler.rpc.postponements import POSTPONE_DELAY, Postponements
from scheduler.rpc.redelivery import LONG_WAIT, Decision, Fate, Redeliveries
from scheduler.rpc.reply_queues import ReplyQueues
from scheduler.rpc.serializer import ServerSerializer
from scheduler.rpc.transport import TOPIC

LOG = logging.getLogger(__name__)


class TrafficObserver(Protocol):
    """Is told of messages that are not answered here."""

    def refused(self) -> None:
        """Learn that a message could not be read."""

    def undelivered(self) -> None:
        """Learn that a reply was not delivered."""

    def forwarded(self, reason: str) -> None:
        """Learn that a call was sent on to another scheduler."""


class NoObserver:
    """Ignores what becomes of messages."""

    def refused(self) -> None:
        """Ignore a message that could not be read."""

    def undelivered(self) -> None:
        """Ignore a reply that was not delivered."""

    def forwarded(self, reason: str) -> None:
        """Ignore a call that was sent on."""


class OwnQueue(NamedTuple):
    """Where calls are taken that other schedulers send on.

    Attributes:
        name: The queue.
        announce: Called with whether calls are taken from it: when the server starts, before it is read from,
            when that changes, and when it stops. Must not wait.
    """

    name: str
    announce: Callable[[bool], None]


class Server(server.RPCServer):
    """oslo.messaging's server, with heartbeats from the receipt of a message, and confirmed replies.

    ``start()`` begins to consume messages, ``stop()`` ends that, and ``wait()`` returns when all messages
    that were begun are answered. What a request claimed is kept if its reply was delivered, and given back
    otherwise; the message is acknowledged after that. If the broker does not tell, it is kept, and the call
    returned to the broker so that its caller is answered in any case. What becomes of a redelivered call is
    decided by ``redelivery``. One whose instances are claimed by another request is returned to the broker.
    So is a call that cannot be finished because this process stops. But for a stop, a process returns a call
    a bounded number of times.

    All threads are started before the first message is consumed: oslo.messaging starts them one by one with
    the messages, and loses a message for which none can be started.

    Attributes:
        heartbeats: The heartbeats of the calls that are not answered yet.
        activity: How busy its threads are.
        observer: Is told of messages that are not answered here.
        topic: Where calls are taken; to be set before it starts.
        takes_casts: Whether the casts to all schedulers are taken; to be set before it starts.
        own_queue: Where calls are taken that other schedulers send on, or None; to be set before it starts.
        outages: Pauses and resumes the receipt of calls; to be set before it starts, or None.
    """

    def __init__(
        self,
        transport: Any,
        target: messaging.Target,
        dispatcher: Any,
        executor: str | None = None,
        *,
        heartbeats: Heartbeats,
        warnings: RateLimitedLogger,
        runs: MessageRuns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Make a server as ``oslo_messaging.get_rpc_server`` calls for; ``executor`` is ignored."""
        self.heartbeats = heartbeats
        self._warnings = warnings
        self._sleep = sleep
        self._runs = runs
        self._redeliveries = Redeliveries(runs, self._caller_patience, sleep=self._wait_for_another)
        self._postponements = Postponements()
        self._reply_queues = ReplyQueues(self._return_noted, self._drop)
        self._forwarder = forwarding.Forwarder(self._tell_forwarded)
        self.topic: str = target.topic
        self.takes_casts = True
        self.own_queue: OwnQueue | None = None
        self.outages: Outages | None = None
        self.observer: TrafficObserver = NoObserver()
        self._late_listener: amqp_listener.LateListener | None = None
        super().__init__(
            transport, target, Dispatcher(dispatcher, heartbeats, warnings, self._tell_refusal), "threading"
        )
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
        return 0 if listener is None else listener.unanswered

    @property
    def busy(self) -> bool:
        """Whether a message is handled, or a call not answered yet."""
        return self.activity.in_flight > 0 or self.unanswered > 0

    def stalled(self) -> float:
        """Return the seconds for which no message was begun, finished or got on with, although one waits."""
        return self.activity.stalled(self.unanswered - len(self._reply_queues))

    def _create_listener(self) -> Any:
        self._start_threads()
        with refusals_as_config_errors():
            berth = self.conf.berth
            listener = amqp_listener.listen(
                self.transport,
                self._target(topic=self.topic),
                berth.largest_message,
                berth.consumer_priority,
                fanout=self._target.topic if self.takes_casts else "",
            )
            if listener is None:
                return super()._create_listener()
            queue = self._read_own_queue(listener)

            def stop() -> None:
                if queue is not None:
                    queue.stop()
                self._reply_queues.stop()

            listener.on_stop = stop
            self._late_listener = listener
            if self.outages is not None:
                self.outages.follow(listener, self.conf.executor_thread_pool_size)
            return amqp_listener.adapted(listener)

    def _read_own_queue(self, listener: amqp_listener.LateListener) -> forwarding.ForwardingQueue | None:
        if self.own_queue is None:
            return None
        name, announce = self.own_queue
        queue = forwarding.ForwardingQueue(listener, name, self.topic, announce)
        queue.start()
        return queue

    def _start_threads(self) -> None:
        """Start the heartbeats, the looks at reply queues, and as many threads as the pool may have.

        Raises:
            RuntimeError: The system has no thread left.
        """
        self.heartbeats.start()
        self._reply_queues.start()
        for _ in range(self.conf.executor_thread_pool_size):
            self._work_executor.submit(_do_nothing)

    def _on_incoming(self, incoming: Any) -> None:
        for message in incoming:
            self.heartbeats.watch(message, _silence_before(message))
        super()._on_incoming(incoming)

    def _tell_refusal(self) -> None:
        self.observer.refused()

    def _tell_forwarded(self, reason: str) -> None:
        self.observer.forwarded(reason)

    def _process_incoming(self, incoming: Any) -> None:
        with self.activity.message():
            self._process(incoming)

    def _process(self, incoming: Any) -> None:
        message = incoming[0]
        confirmed = isinstance(message, ConfirmedMessage)
        if confirmed and message.hand_back():
            self.heartbeats.release(message)
            return
        if confirmed and self._is_caller_missing(message):
            self.heartbeats.release(message)
            self._reply_queues.wait(message)
            return
        decision = self._redeliveries.decide(message) if confirmed else Decision(Fate.RUN)
        if decision.fate not in {Fate.RUN, Fate.RUN_ANSWERED}:
            self._end_without_run(message, decision)
            return
        current = self._delivery_of(message, confirmed, decision)
        token = delivery.CURRENT.set(current)
        finish = partial(self._finish, message, current) if confirmed else current.confirm
        try:
            super()._process_incoming(incoming)
        except delivery.Postponed as reason:
            LOG.info("Call %s is returned to the broker: %s", message.msg_id, reason)
            finish = partial(self._return if reason.at_once else self._postpone_longer, message)
        except delivery.Forwarded:
            finish = _do_nothing
        except delivery.CallerGone:
            finish = partial(self._settle_unanswered, message) if confirmed else _do_nothing
        finally:
            delivery.CURRENT.reset(token)
            finish()
            current.end()

    def _is_caller_missing(self, message: ConfirmedMessage) -> bool:
        """Return whether the reply queue of a call is missing; it is looked for if the call had to wait.

        A redelivered call is run all the same: that gives back what an earlier run has left.
        """
        if message.redelivered or not (message.orig_msg_id and isinstance(message.reply_q, str)):
            return False
        waited = time.monotonic() - message.received
        return self._reply_queues.is_missing(message, certain=waited > LONG_WAIT)

    def _wait_for_another(self, seconds: float) -> None:
        self.activity.touch()
        self._sleep(seconds)

    def _caller_patience(self) -> float:
        timeout = self.conf.long_rpc_timeout
        return timeout if timeout > 0 else math.inf

    def _delivery_of(self, message: Any, confirmed: bool, decision: Decision) -> delivery.Delivery:
        identity = getattr(message, "unique_id", None) or ""
        postponable = self._postponements.may_postpone(identity)
        if not confirmed:
            return delivery.Delivery(delivery.Receipt(identity), delivery.Elsewhere(postponable))
        answered, waited = decision.fate is Fate.RUN_ANSWERED, time.monotonic() - message.received
        message.delivery = delivery.Delivery(
            delivery.Receipt(identity, message.redelivered, answered, waited),
            delivery.Elsewhere(postponable, True, self._forward_of(message)),
            self._runs,
        )
        return message.delivery

    def _forward_of(self, message: ConfirmedMessage) -> Callable[[str, str], delivery.Sent] | None:
        """Return what sends a call on; None if another scheduler has sent it here, or did so before."""
        return None if forwarding.FORWARDED in message.headers else partial(self._send_on, message)

    def _send_on(self, message: ConfirmedMessage, topic: str, reason: str) -> delivery.Sent:
        self._redeliveries.pause(message)
        sent = self._forwarder.forward(message, topic, reason)
        if sent is not delivery.Sent.YES:
            self._redeliveries.resume(message)
        return sent

    def _end_without_run(self, message: ConfirmedMessage, decision: Decision) -> None:
        """Acknowledge a message that is not run, after an error if it is refused."""
        self.heartbeats.release(message)
        if decision.fate is Fate.UNKNOWN:
            if self._postponements.may_postpone(message.unique_id):
                self._postpone(message)
                return
            self._redeliveries.end(message)
        if decision.fate in {Fate.REFUSED, Fate.UNKNOWN}:
            message.reply(failure=_failure(f"The request is not tried again: {decision.reason}"))
        if decision.fate is not Fate.RETURNED:
            message.settle()

    def _postpone_longer(self, message: ConfirmedMessage) -> None:
        """Return a call to the broker for which another scheduler may have claimed hosts."""
        self._postpone(message, self._postponements.growing_delay(message.unique_id))

    def _postpone(self, message: ConfirmedMessage, delay: float = POSTPONE_DELAY) -> None:
        self._postponements.note(message.unique_id)
        self._sleep(delay)
        self._return(message)

    def _return_noted(self, message: ConfirmedMessage) -> None:
        """Return a call to the broker that waited for its reply queue."""
        self._postponements.note(message.unique_id)
        self._return(message)

    def _drop(self, message: ConfirmedMessage) -> None:
        """Acknowledge a call whose reply queue is given up; if it comes again it is looked for again."""
        message.undelivered = message.undelivered or ReplyQueueMissing("it was given up")
        self._redeliveries.end(message)
        message.settle()

    def _return(self, message: ConfirmedMessage) -> None:
        self._redeliveries.end(message)
        message.requeue()

    def _settle_unanswered(self, message: ConfirmedMessage) -> None:
        """Acknowledge a message without an answer. If another process has it meanwhile, that one answers."""
        self.observer.undelivered()
        self._redeliveries.pause(message)
        message.settle()

    def _finish(self, message: ConfirmedMessage, current: delivery.Delivery) -> None:
        """Keep or give back what depends on the reply, then acknowledge the message."""
        error = message.undelivered
        if error is None:
            current.confirm()
        elif message.may_be_delivered:
            self._finish_unconfirmed(message, current)
            return
        else:
            self._warnings.warning(
                type(error).__name__, "Reply %s was not delivered: %.300s", message.msg_id, error
            )
            current.give_back()
            self.observer.undelivered()
            if isinstance(error, ReplyQueueMissing) and current.can_be_postponed:
                self._redeliveries.pause(message)
                self._reply_queues.wait(message)
                return
            if message.can_be_answered_later and current.can_be_postponed:
                self._postpone(message)
                return
            if message.caller_waits:
                message.reply(failure=_failure(f"The reply cannot be sent: {error}"))
                if message.undelivered is None:
                    current.confirm()
        self._redeliveries.end(message)
        message.settle()

    def _finish_unconfirmed(self, message: ConfirmedMessage, current: delivery.Delivery) -> None:
        """Keep what a reply names whose outcome is not known, and let the message be answered once more."""
        self._warnings.warning(
            "unconfirmed",
            "Reply %s was not confirmed and may have been delivered; what it names is kept: %.300s",
            message.msg_id,
            message.undelivered,
        )
        current.keep()
        self.observer.undelivered()
        if current.can_be_postponed:
            self._postpone(message)
        else:
            self._redeliveries.end(message)
            message.settle()


def _silence_before(message: Any) -> float:
    """Return for how many seconds the caller of a message that was just received may have heard nothing."""
    if not isinstance(message, ConfirmedMessage):
        return 0.0
    return math.inf if message.redelivered or forwarding.FORWARDED in message.headers else 0.0


def _do_nothing() -> None:
    """Return at once."""


def _failure(text: str) -> Any:
    """Return an error as oslo.messaging sends it."""
    error = InternalError(text)
    return (type(error), error, None)


def build(
    conf: cfg.ConfigOpts,
    transport: Any,
    manager: Any,
    clock: Callable[[], float] = time.monotonic,
    heartbeats: Heartbeats | None = None,
    sleep: Callable[[float], None] = time.sleep,
    runs: MessageRuns = NoRuns(),  # noqa: B008 - it has no state
    observer: TrafficObserver = NoObserver(),  # noqa: B008 - it has no state
) -> Server:
    """Return a server that hands requests to ``manager``, named ``[DEFAULT]/host``; not started.

    Args:
        conf: The options.
        transport: What ``transport.rpc_transport`` returned.
        manager: A ``SchedulerManager``.
        clock: Seconds that only grow, for the interval between warnings about refused messages.
        heartbeats: Sends heartbeats to callers; by default a new one with its own thread.
        sleep: Waits for a number of seconds, before a redelivered call is returned to the broker.
        runs: Records which calls are run, and how they are answered.
        observer: Is told of messages that are not answered here.
    """
    warnings = RateLimitedLogger(LOG, clock=clock)
    scheduler = endpoints.Scheduler(
        manager, warnings, conf.berth.largest_message, lambda: max(1, conf.scheduler.max_attempts)
    )
    served: list[Any] = [scheduler, endpoints.Base(warnings)]
    if conf.rpc_ping_enabled:
        # oslo.messaging looks at the global configuration object only, which is not used here
        served.append(library.PingEndpoint())
    target = messaging.Target(topic=TOPIC, server=conf.host)
    made = _made(
        transport,
        target,
        served,
        ServerSerializer(),
        heartbeats=Heartbeats() if heartbeats is None else heartbeats,
        warnings=warnings,
        runs=runs,
        sleep=sleep,
    )
    made.observer = observer
    return made


def build_proxy(conf: cfg.ConfigOpts, transport: Any, endpoint: Any) -> Server:
    """Return a server that hands the calls of all schedulers to ``endpoint`` as they are; not started.

    It takes no casts. Arguments and contexts are the dicts of the message.
    """
    warnings = RateLimitedLogger(LOG)
    target = messaging.Target(topic=TOPIC, server=conf.host)
    served = [endpoint, endpoints.Base(warnings)]
    made = _made(
        transport,
        target,
        served,
        messaging.NoOpSerializer(),
        heartbeats=Heartbeats(),
        warnings=warnings,
        runs=NoRuns(),
    )
    made.takes_casts = False
    return made


def _made(
    transport: Any, target: messaging.Target, served: list[Any], serializer: Any, **options: Any
) -> Server:
    made: Server = messaging.get_rpc_server(
        transport,
        target,
        served,
        serializer=serializer,
        access_policy=messaging.DefaultRPCAccessPolicy,
        server_cls=partial(Server, **options),
    )
    return made
