"""A model of the message broker, in the place of AMQP below the product's server.

A call is acknowledged after its reply, as ``scheduler.rpc.amqp`` has it: a message of a worker that dies goes
to another. What is sent and acknowledged, and with which errors, is decided here; how often a reply is tried,
and what follows from its outcome, is the product's code.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
import itertools
import math
import random
from types import SimpleNamespace
from typing import Any

import orjson
import oslo_messaging as messaging
from oslo_messaging._drivers import base

from scheduler.rpc.amqp.listener import LONGEST_UNACKNOWLEDGED
from scheduler.rpc.amqp.message import DELIVERED_BEFORE, RETURNED, ConfirmedMessage, ReplyQueueMissing
from scheduler.rpc.amqp.publisher import ReplyTimeout, ReplyTooLarge
from scheduler.rpc.transport import TOPIC
from tools.simulation.runtime import Process, Runtime, Task

# Seconds for which a call waits for its reply queue, and a reply for the broker.
MISSING_QUEUE = 60.0


@dataclass(eq=False)
class Message:
    """A call on its way. A copy in another queue has the same number, and the same lists and sets.

    Attributes:
        queue: The name of the queue that it is in, or was received from.
        headers: What the broker, or a scheduler that sent it on, has written on it.
        published: When it was put into the queue.
        replies: Times at which a reply was handed to the broker, or given up because its queue was gone.
        waits: For each time that it was processed: seconds from its start to its reply.
        working: The processes that have begun to process it and have not replied.
        receivers: The processes that it was delivered to, and that have not sent it on.
        abandoned: Times at which a process acknowledged it without a reply, since its caller waits no more.
    """

    number: int
    body: dict[str, Any]
    context: dict[str, Any]
    reply_queue: str
    client_timeout: int
    published: float = 0.0
    redelivered: bool = False
    acknowledged: bool = False
    replies: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    working: set[Process] = field(default_factory=set)
    abandoned: list[float] = field(default_factory=list)
    receivers: set[Process] = field(default_factory=set)
    queue: str = TOPIC
    headers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For the trace."""
        return f"m{self.number}"


@dataclass(frozen=True)
class Reply:
    """What a caller's queue receives: a result, the name of an error, or a sign of life (both None)."""

    message: Message
    result: Any = None
    failure: str | None = None

    @property
    def is_heartbeat(self) -> bool:
        """Whether it says only that the call is worked on."""
        return self.result is None and self.failure is None


class Broker:
    """The queue of all schedulers, those of calls that are sent on, and the reply queues of callers.

    Attributes:
        up: False while nobody can connect.
        largest: Bytes of the largest message.
        redelivery: Probability that a received message comes once more, as after a lost acknowledgement.
        loss: Probability that a reply gets lost after the broker has confirmed it.
        silence: Probability that a reply is taken and not confirmed.
        unsent: Probability that a call that is sent on is returned, or taken or lost without a confirmation.
        lifetimes: Seconds for which calls stay in the queues of those that are sent on.
        unconfirmed: The replies that were taken and not confirmed. Their callers may have received them.
        losses: How often each process has lost the channel on which it receives.
    """

    def __init__(self, runtime: Runtime, seed: object, told: Callable[[str], None]) -> None:
        self.up = True
        self.largest = 16 << 20
        self.redelivery = 0.0
        self.loss = 0.0
        self.silence = 0.0
        self.unsent = 0.0
        self.lifetimes: dict[str, float] = {}
        self.unconfirmed: list[Reply] = []
        self.losses: Counter[Process] = Counter()
        self._opened: dict[Process, float] = {}
        self.queues: dict[str, Callable[[Reply], None]] = {}
        self.messages: list[Message] = []
        self.random = random.Random(f"broker {seed}")
        self.runtime = runtime
        self.told = told
        self._queue: list[Message] = []
        self._unacknowledged: dict[Process, list[Message]] = {}
        self._consumers: list[Task] = []
        self._outage: list[Task] = []
        self._numbers = itertools.count(1)

    # -- for callers -----------------------------------------------------------------------------------------

    def publish(
        self, body: dict[str, Any], context: dict[str, Any], reply_queue: str, client_timeout: int
    ) -> Message:
        """Put a call into the queue. Blocks while the broker is away."""
        self.wait_until_up()
        message = Message(next(self._numbers), body, context, reply_queue, client_timeout, self.runtime.clock)
        self.messages.append(message)
        self._enqueue(message)
        return message

    @property
    def waiting(self) -> list[Message]:
        """The messages that no worker has received."""
        return list(self._queue)

    # -- for workers -----------------------------------------------------------------------------------------

    def receive(self, stopped: Callable[[], bool], queues: Collection[str] = frozenset()) -> Message | None:
        """Wait for the next message, of all schedulers or of ``queues``; None once ``stopped`` says so."""
        process = self.runtime.current.process
        self._opened.setdefault(process, self.runtime.clock)
        while not stopped():
            message = next((one for one in self._queue if one.queue == TOPIC or one.queue in queues), None)
            if self.up and message:
                self._queue.remove(message)
                self._deliver(message, process)
                return message
            self.runtime.wait(self._consumers)
        return None

    def wake_consumers(self) -> None:
        """Let those who wait for messages look again."""
        self.runtime.wake_all(self._consumers)

    def acknowledge(self, message: Message, process: Process) -> None:
        """Forget a message: it does not come again."""
        if message in self._unacknowledged.get(process, ()) and process.alive and self.up:
            self._unacknowledged[process].remove(message)
            message.acknowledged = True

    def give_back(self, message: Message, process: Process) -> None:
        """Deliver a message that a consumer does not want to another."""
        if message in self._unacknowledged.get(process, ()) and process.alive and self.up:
            self._unacknowledged[process].remove(message)
            if message.queue != TOPIC:
                self._move_back(message, "rejected")
                return
            message.redelivered = True
            self._enqueue(message)

    def forward(self, message: Message, queue: str, headers: Mapping[str, Any]) -> bool:
        """Put a call into another queue; return whether that is to be confirmed.

        Raises:
            MessageUndeliverable: There is no such queue, or the fault is that it seems so.
        """
        faulty = bool(self.unsent) and self.random.random() < self.unsent
        fate = self.random.choice(("returned", "lost", "there")) if faulty else ""
        self.told(f"broker has {message.name} for {queue}{f', {fate} and not confirmed' if fate else ''}")
        if fate == "returned" or queue not in self.lifetimes:
            raise messaging.MessageUndeliverable(None, "", queue, None)
        if fate != "lost":
            self._enqueue(replace(message, queue=queue, headers=headers, redelivered=False))
        return not fate

    def disconnected(self, process: Process) -> None:
        """Deliver once more what a consumer received and did not acknowledge: its channel is gone."""
        self.losses[process] += 1
        self._opened[process] = self.runtime.clock
        for message in self._unacknowledged.pop(process, []):
            self.told(f"broker delivers {message.name} once more")
            message.redelivered = True
            self._enqueue(message)

    def send(self, reply: Reply) -> bool:
        """Put a reply into the queue of its caller; False if there is none."""
        handler = self.queues.get(reply.message.reply_queue)
        if handler is None:
            return False
        if not reply.is_heartbeat and self.random.random() < self.loss:
            self.told(f"broker loses the reply to {reply.message.name}")
            return True
        self.runtime.after(0.001 + 0.01 * self.random.random(), handler, reply)
        return True

    def confirms(self, reply: Reply) -> bool:
        """Return whether a reply is to be confirmed; otherwise it is put into its queue, or lost."""
        if not self.silence or self.random.random() >= self.silence:
            return True
        self.unconfirmed.append(reply)
        delivered = self.random.random() < 0.5 and self.send(reply)
        fate = "has" if delivered else "loses"
        self.told(f"broker does not confirm the reply to {reply.message.name}, and {fate} it")
        return False

    def opened(self, process: Process) -> float:
        """Return when the channel of a process was opened."""
        return self._opened[process]

    # -- outages ---------------------------------------------------------------------------------------------

    def wait_until_up(self) -> None:
        """Block while the broker is away."""
        while not self.up:
            self.runtime.wait(self._outage)

    def stop(self) -> None:
        """Break all connections."""
        self.up = False
        for process in list(self._unacknowledged):
            self.disconnected(process)

    def start(self) -> None:
        """Accept connections again."""
        if not self.up:
            self._opened = dict.fromkeys(self._opened, self.runtime.clock)
        self.up = True
        self.runtime.wake_all(self._outage)
        self.wake_consumers()

    def _enqueue(self, message: Message) -> None:
        if message in self._queue:  # else copies of it would beget copies
            return
        self._queue.append(message)
        if message.queue != TOPIC:
            self.runtime.after(self.lifetimes[message.queue], self._expire, message)
        self.wake_consumers()

    def _expire(self, message: Message) -> None:
        if message in self._queue:
            self._queue.remove(message)
            self._move_back(message, "expired")

    def _move_back(self, message: Message, reason: str) -> None:
        self.told(f"broker moves {message.name} back from {message.queue}: {reason}")
        headers = {**message.headers, RETURNED: [{"reason": reason, "count": 1}]}
        self._enqueue(replace(message, queue=TOPIC, headers=headers, redelivered=False))

    def _deliver(self, message: Message, process: Process) -> None:
        self._unacknowledged.setdefault(process, []).append(message)
        message.receivers.add(process)
        self.told(f"receives {message.name}{' (redelivered)' if message.redelivered else ''}")
        if self.random.random() < self.redelivery:
            self.runtime.after(5.0 * self.random.random(), self._again, message)

    def _again(self, message: Message) -> None:
        self.told(f"broker delivers {message.name} once more")
        message.redelivered = True
        self._enqueue(message)


class Incoming(ConfirmedMessage):
    """A message as the product's server sees it, from a classic queue."""

    delivery_count = 0
    headers: Mapping[str, Any] = {}  # in the place of a property

    def __init__(self, listener: "Listener", message: Message) -> None:
        base.RpcIncomingMessage.__init__(self, message.context, message.body, msg_id=str(message.number))
        self.listener = listener
        self.client_timeout = message.client_timeout
        self.orig_msg_id = self.msg_id
        self.unique_id = self.msg_id
        self.reply_q = message.reply_queue
        self.sent = message
        self.headers = message.headers
        self._was_redelivered = bool(
            message.redelivered or RETURNED in message.headers or message.headers.get(DELIVERED_BEFORE)
        )
        self.received = listener.broker.runtime.clock
        self.was_queued = message.published < listener.since()
        self.losses = listener.broker.losses[listener.process]
        self._started = math.inf

    @property
    def redelivered(self) -> bool:
        """Whether the broker has delivered the message before."""
        return self._was_redelivered

    def hand_back(self) -> bool:
        """Return the message if the listener stops; a thread that has taken it asks for that first."""
        self._started = min(self._started, self.listener.broker.runtime.clock)
        return super().hand_back()

    def acknowledge(self) -> None:
        """Note that the processing starts; the message is acknowledged by ``settle``."""
        self._started = self.listener.broker.runtime.clock
        self.sent.working.add(self.listener.process)

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Send the result or the error as the product does it, and note when that was over."""
        broker, message = self.listener.broker, self.sent
        message.waits.append(broker.runtime.clock - self._started)
        super().reply(reply, failure)
        message.working.discard(self.listener.process)
        if not self.caller_waits and not isinstance(self.undelivered, ReplyQueueMissing):
            message.replies.append(broker.runtime.clock)
        name = failure[0].__name__ if failure else "hosts"
        text = "replies to" if self.undelivered is None else "cannot reply to"
        broker.told(f"{text} {message.name}: {name}")

    def has_reply_queue(self) -> bool:
        """Return whether the queue of the caller exists."""
        broker = self.listener.broker
        broker.runtime.step()
        self._connect(broker.runtime.clock)
        return self.reply_q in broker.queues

    def _send_once(self, deadline: float, reply: Any, failure: Any, ending: bool = True) -> None:
        broker = self.listener.broker
        broker.runtime.step()
        text = orjson.dumps(reply)
        if len(text) > broker.largest:
            raise ReplyTooLarge(f"it has {len(text)} bytes")
        self._connect(deadline)
        name = failure[0].__name__ if failure else None
        if ending:
            self._note_sent()
        sent = Reply(self.sent, None if failure or not ending else orjson.loads(text), name)
        if not broker.confirms(sent):
            self._wait_in_vain(deadline)
        if not broker.send(sent):
            raise messaging.MessageUndeliverable(None, "", self.reply_q, None)

    def _publish_again(self, queue: str, headers: dict[str, Any], deadline: float) -> None:
        broker = self.listener.broker
        broker.runtime.step()
        self._connect(deadline)
        if not broker.forward(self.sent, queue, headers):
            self._wait_in_vain(deadline)
        broker.runtime.sleep(0.002 * broker.random.random())

    def _connect(self, deadline: float) -> None:
        broker = self.listener.broker
        while not broker.up:
            if broker.runtime.clock >= deadline:
                raise ReplyTimeout("the broker cannot be reached")
            broker.runtime.sleep(1.0)
        broker.runtime.sleep(0.002 * broker.random.random())
        if not broker.up:
            raise messaging.MessageDeliveryFailure("the connection is lost")

    def _wait_in_vain(self, deadline: float) -> None:
        """Wait for a confirmation until the deadline, or until the connection breaks."""
        broker = self.listener.broker
        left, breaks = max(0.0, deadline - broker.runtime.clock), broker.random.random() < 0.5
        broker.runtime.sleep(left * broker.random.random() if breaks else left)
        if breaks:
            raise messaging.MessageDeliveryFailure("the connection is lost")
        raise ReplyTimeout("the broker did not confirm it in time")


class Listener(base.PollStyleListener):
    """Receives messages in one process; a repeated one is not handed on, as by ``LateListener``."""

    driver = SimpleNamespace(missing_destination_retry_timeout=MISSING_QUEUE)
    forwarding_queues: frozenset[str] = frozenset()

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker
        self.process = broker.runtime.current.process
        self._stopped = False
        self._in_progress: dict[int, list[tuple[Message, int]]] = {}
        self._answered: set[int] = set()
        self.conn = SimpleNamespace(
            rabbit_quorum_queue=False,
            rabbit_quorum_queue_config=None,
            rabbit_ha_queues=False,
            enable_cancel_on_failover=False,
            declare_consumer=self._declare,
        )
        self.process.at_exit.append(self.cleanup)

    def poll(
        self, timeout: float | None = None, batch_size: int = 1, batch_timeout: float | None = None
    ) -> list[Incoming]:
        """Wait for a message; none after ``stop``."""
        while (message := self._receive()) is not None:
            if message.number in self._answered:
                self.broker.acknowledge(message, self.process)
                continue
            deliveries = self._in_progress.setdefault(message.number, [])
            deliveries.append((message, self.broker.losses[self.process]))
            if len(deliveries) == 1:
                acknowledge = self.broker.acknowledge
                self.broker.runtime.after(LONGEST_UNACKNOWLEDGED, acknowledge, message, self.process)
                return [Incoming(self, message)]
        return []

    @property
    def unanswered(self) -> int:
        """The number of calls that were received and not answered yet."""
        return len(self._in_progress)

    def since(self) -> float:
        """Return the time; what was published before may have waited while nobody received it."""
        return max(self.broker.opened(self.process), self.process.resumed_at)

    def is_lost(self, incoming: Incoming) -> bool:
        """Return whether no delivery of a message can be acknowledged any more."""
        return not any(self._is_held(*each) for each in self._deliveries_of(incoming))

    def was_interrupted(self, incoming: Incoming) -> bool:
        """Return whether the broker had a message again since it was received."""
        return not self._is_held(incoming.sent, incoming.losses)

    def can_requeue(self, incoming: Incoming) -> bool:
        """Return whether a message is not acknowledged."""
        return not incoming.sent.acknowledged

    def _deliveries_of(self, incoming: Incoming) -> list[tuple[Message, int]]:
        return self._in_progress.get(incoming.sent.number, [(incoming.sent, incoming.losses)])

    def _is_held(self, message: Message, losses: int) -> bool:
        return message.acknowledged or losses == self.broker.losses[self.process]

    def _receive(self) -> Message | None:
        return self.broker.receive(lambda: self._stopped, self.forwarding_queues)

    def _declare(self, consumer: Any) -> None:
        self.broker.lifetimes[consumer.queue_name] = consumer.queue_arguments["x-message-ttl"] / 1000

    def hand_over(self, incoming: Incoming, publish: Callable[[], None]) -> None:
        """Publish a message elsewhere, and acknowledge it after that, as ``LateListener`` does."""
        message = incoming.sent
        deliveries = self._in_progress.pop(message.number, [])
        try:
            publish()
        except BaseException:
            self._in_progress.setdefault(message.number, []).extend(deliveries)
            raise
        message.working.discard(self.process)
        if message.number not in self._in_progress:
            message.receivers.discard(self.process)
        for each, _losses in deliveries:
            self.broker.acknowledge(each, self.process)

    def settle(self, incoming: Incoming) -> None:
        """Acknowledge a message, however often it was received."""
        if incoming.undelivered is None:
            self._answered.add(incoming.sent.number)
        if isinstance(incoming.undelivered, ReplyQueueMissing):
            incoming.sent.replies.append(self.broker.runtime.clock)
        if self.process in incoming.sent.working:
            incoming.sent.working.discard(self.process)
            incoming.sent.abandoned.append(self.broker.runtime.clock)
            self.broker.told(f"leaves {incoming.sent.name} without a reply")
        for message, losses in self._in_progress.pop(incoming.sent.number, ()):
            if losses == self.broker.losses[self.process]:
                self.broker.acknowledge(message, self.process)

    def hand_back(self, incoming: Incoming) -> bool:
        """Return a message to the broker if this listener has stopped."""
        if not self._stopped:
            return False
        self.requeue(incoming)
        return True

    def requeue(self, incoming: Incoming) -> None:
        """Return a message to the broker."""
        incoming.sent.working.discard(self.process)
        for message, losses in self._in_progress.pop(incoming.sent.number, ()):
            if losses == self.broker.losses[self.process]:
                self.broker.give_back(message, self.process)

    def stop(self) -> None:
        """Take no more messages."""
        self._stopped = True
        self.broker.wake_consumers()

    def cleanup(self) -> None:
        """Close the connection."""
        self.broker.disconnected(self.process)


class Driver:
    """What oslo.messaging's transport uses of a driver."""

    def __init__(self, conf: Any, broker: Broker) -> None:
        self.conf = conf
        self.broker = broker

    def require_features(self, requeue: bool = False) -> None:
        """Accept what is asked for."""

    def cleanup(self) -> None:
        """Close the connections."""
        self.broker.disconnected(self.broker.runtime.current.process)


def listen(transport: Any, _target: Any, _largest: int, _priority: int) -> Listener:
    """Return a listener on the request queue, in the place of that on AMQP."""
    return Listener(transport._driver.broker)  # noqa: SLF001
