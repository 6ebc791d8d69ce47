"""A model of RabbitMQ: queues, consumers, acknowledgements and confirmations, below ``amqp``.

What becomes of a message, and when, is decided by the product: the model knows methods of AMQP alone. It also
keeps what the checks need to know of each call.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
import itertools
import random
from typing import Any, NamedTuple

import amqp
from amqp import spec
import orjson

from scheduler.rpc.server import PRIORITY_STEP
from scheduler.rpc.transport import TOPIC
from tools.simulation.runtime import Process, Runtime, Task

# Seconds after which a client notices at the latest that its connection is gone, if nobody tells it.
UNNOTICED = 20.0

# Seconds after an outage in which clients connect again.
RECONNECTED = 31.0

# Seconds from a delivery after which its connection is lost at the latest: one of these. So two runs of a
# call begin almost together, or while the first one claims.
SOON = (0.02, 0.3, 5.0)

# Seconds after which a connection breaks at the latest on which a message was not confirmed.
UNCONFIRMED = 60.0


@dataclass(eq=False)
class Message:
    """A call.

    Attributes:
        published: When its caller sent it.
        replies: Times at which the broker took a reply.
        waits: For each time that a thread served it: seconds from the begin to the end.
        working: The processes in which a thread serves it, and since when.
        runs: The processes in which threads have served it, in the order in which they began.
        abandoned: Times at which it was acknowledged without a reply.
        is_poison: So many processes ended with it that it was not run once more.
    """

    number: int
    reply_queue: str
    published: float
    acknowledged: bool = False
    replies: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    working: dict[Process, float] = field(default_factory=dict)
    runs: list[Process] = field(default_factory=list)
    abandoned: list[float] = field(default_factory=list)
    is_poison: bool = False

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


@dataclass(eq=False)
class Stored:
    """A call in a queue, or delivered from there.

    Attributes:
        headers: What the broker, or a scheduler that sent it on, has written on it.
        deliveries: How often it was delivered before.
    """

    message: Message
    body: str
    headers: Mapping[str, Any] = field(default_factory=dict)
    deliveries: int = 0


@dataclass(eq=False)
class Queue:
    """A queue of calls, with the arguments that it was declared with."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    ready: list[Stored] = field(default_factory=list)
    consumers: list["Consumer"] = field(default_factory=list)


class Consumer(NamedTuple):
    """What reads a queue."""

    session: "Session"
    tag: str
    priority: int


class Session:
    """The broker's side of a channel.

    Attributes:
        unacknowledged: What was delivered, by its tag.
        confirms: The number of the next message that is to be confirmed; None: none is.
    """

    def __init__(self, connection: Any, number: int) -> None:
        self.connection = connection
        self.number = number
        self.tags = itertools.count(1)
        self.unacknowledged: dict[int, tuple[Queue, Stored]] = {}
        self.confirms: Any = None

    def send(self, sig: tuple[int, int], *arguments: Any, content: Any = None) -> None:
        """Send a method to the client."""
        self.connection.receive(self.number, sig, arguments, content)


class Broker:
    """The queue of all schedulers, and the reply queues of callers.

    Attributes:
        active: The broker of the history that runs.
        up: False while nobody can connect.
        largest: Bytes of the largest message.
        redelivery: Probability that the connection is lost on which a call was just delivered, so that it
            comes once more, while its process goes on and notices it late.
        silence: Probability that a reply is taken and not confirmed.
        disturbed: When a connection was lost last, or a message not confirmed.
        unconfirmed: The replies that were taken and not confirmed. Their callers may have received them.
        queues: The reply queues of callers: what takes a reply out of each; None: nobody reads it.
    """

    active: "Broker"

    def __init__(self, runtime: Runtime, seed: object, told: Callable[[str], None]) -> None:
        Broker.active = self
        self.up = True
        self.largest = 16 << 20
        self.redelivery = 0.0
        self.silence = 0.0
        self.disturbed = 0.0
        self.unconfirmed: list[Reply] = []
        self.queues: dict[str, Callable[[Reply], None] | None] = {}
        self.messages: dict[str, Message] = {}
        self.random = random.Random(f"broker {seed}")
        self.runtime = runtime
        self.told = told
        self._calls: dict[str, Queue] = {TOPIC: Queue(TOPIC)}
        self._sessions: dict[Any, dict[int, Session]] = {}
        self._outage: list[Task] = []
        self._methods: Mapping[tuple[int, int], Callable[..., None]] = {
            spec.Basic.Publish: self._publish,
            spec.Basic.Consume: self._consume,
            spec.Basic.Cancel: self._cancel,
            spec.Basic.Ack: self._acknowledge,
            spec.Basic.Reject: self._reject,
            spec.Basic.Nack: self._nack,
            spec.Queue.Declare: self._declare,
            spec.Confirm.Select: self._confirm,
            spec.Channel.Close: self._close,
        }

    # -- for callers and checks ------------------------------------------------------------------------------

    def publish(
        self, body: Mapping[str, Any], context: Mapping[str, Any], reply_queue: str, client_timeout: int
    ) -> Message:
        """Put a call into the queue, as oslo.messaging writes it. Blocks while the broker is away."""
        while not self.up:
            self.runtime.wait(self._outage)
        identity = str(len(self.messages) + 1)
        message = Message(int(identity), reply_queue, self.runtime.clock)
        self.messages[identity] = message
        names = {
            "_msg_id": identity,
            "_unique_id": identity,
            "_reply_q": reply_queue,
            "_timeout": client_timeout,
        }
        inner = {**body, **names, **{f"_context_{key}": value for key, value in context.items()}}
        text = orjson.dumps({"oslo.version": "2.0", "oslo.message": orjson.dumps(inner).decode()}).decode()
        self._enqueue(self._calls[TOPIC], Stored(message, text))
        return message

    @property
    def waiting(self) -> list[Message]:
        """The calls that no scheduler has received."""
        return [each.message for queue in self._calls.values() for each in queue.ready]

    @property
    def is_busy(self) -> bool:
        """Whether a call is in a queue, or was delivered and not acknowledged."""
        sessions = [each for sessions in self._sessions.values() for each in sessions.values()]
        return bool(self.waiting) or any(each.unacknowledged for each in sessions)

    # -- connections -----------------------------------------------------------------------------------------

    def delay(self) -> None:
        """Let the time pass that a message takes."""
        self.runtime.sleep(0.002 * self.random.random())

    def connect(self, connection: Any) -> None:
        """Accept a connection; ``ConnectionRefusedError`` while the broker is away."""
        self.delay()
        if not self.up:
            raise ConnectionRefusedError(111, "Connection refused")
        self._sessions[connection] = {}
        connection.process.at_exit.append(lambda: self.disconnect(connection))

    def disconnect(self, connection: Any) -> None:
        """Forget a connection, and deliver once more what was not acknowledged there."""
        for session in self._sessions.pop(connection, {}).values():
            self._end(session)

    def take(
        self, connection: Any, number: int, sig: tuple[int, int], arguments: tuple, content: Any
    ) -> None:
        """Carry out a method of a client; what is sent on a connection that is gone is lost."""
        sessions = self._sessions.get(connection)
        if sessions is None:
            return
        if sig == spec.Channel.Open:
            sessions[number] = Session(connection, number)
            sessions[number].send(spec.Channel.OpenOk)
        elif number in sessions and sig in self._methods:
            given = arguments if content is None else (*arguments, content)
            self._methods[sig](sessions[number], *given)
        elif number in sessions:  # what needs nothing but an answer
            sessions[number].send((sig[0], sig[1] + 1))

    def is_idle(self, connection: Any) -> bool:
        """Return whether a connection has consumers, and nothing to acknowledge."""
        sessions = self._sessions.get(connection, {}).values()
        return self._has_consumers(connection) and not any(each.unacknowledged for each in sessions)

    def wake_consumers(self) -> None:
        """Let the process that runs look at once whether it is to stop."""
        for connection in self._sessions:
            if connection.process is self.runtime.current.process:
                connection.look()

    def disconnected(self, process: Process) -> None:
        """Let a process lose the channel on which it consumes: at once, unnoticed for a time, or it alone."""
        for connection in [each for each in self._sessions if each.process is process]:
            if not self._has_consumers(connection):
                continue
            how = self.random.choice(("reset", "unnoticed", "closed"))
            self.told(f"channel of {process}: {how}")
            if how == "closed":
                for session in list(self._sessions[connection].values()):
                    self._close_with(session, 406, "PRECONDITION_FAILED - delivery acknowledgement timed out")
            else:
                self._break(connection, UNNOTICED * self.random.random() if how == "unnoticed" else 0.0)

    def stop(self) -> None:
        """Break all connections."""
        self.up = False
        for connection in list(self._sessions):
            self._break(connection)

    def start(self) -> None:
        """Accept connections again."""
        self.up, self.disturbed = True, self.runtime.clock + RECONNECTED
        self.runtime.wake_all(self._outage)

    def _has_consumers(self, connection: Any) -> bool:
        return any(
            session.connection is connection
            for queue in self._calls.values()
            for session, *_ in queue.consumers
        )

    def _break(self, connection: Any, after: float = 0.0) -> None:
        """Lose a connection, which its client notices some seconds later."""
        self.disconnect(connection)
        self.disturbed = self.runtime.clock + after
        error = ConnectionResetError(104, "Connection reset by peer")
        self.runtime.after(after, connection.fail, error)

    def _end(self, session: Session) -> None:
        for queue in self._calls.values():
            queue.consumers = [each for each in queue.consumers if each[0] is not session]
        delivered, session.unacknowledged = list(session.unacknowledged.values()), {}
        for queue, stored in delivered:
            self.told(f"broker delivers {stored.message.name} once more")
            self._enqueue(queue, stored)

    # -- methods of AMQP -------------------------------------------------------------------------------------

    def _close(self, session: Session, *_reason: Any) -> None:
        del self._sessions[session.connection][session.number]
        self._end(session)
        session.send(spec.Channel.CloseOk)

    def _close_with(self, session: Session, code: int, text: str, sig: tuple[int, int] = (0, 0)) -> None:
        """Close a channel because of an error, in a method or not."""
        del self._sessions[session.connection][session.number]
        self._end(session)
        session.send(spec.Channel.Close, code, text, *sig)

    def _confirm(self, session: Session, _nowait: bool) -> None:
        session.confirms = itertools.count(1)
        session.send(spec.Confirm.SelectOk)

    def _declare(self, session: Session, _ticket: int, name: str, passive: bool, *rest: Any) -> None:
        known = name in self.queues or name in self._calls
        if passive and not known:
            self._close_with(session, 404, f"NOT_FOUND - no queue '{name}'")
            return
        if not known:
            self._calls[name] = Queue(name)
        queue = self._calls.get(name, Queue(name))
        if not passive:
            queue.arguments = rest[-1] or {}
        readers = bool(self.queues[name]) if name in self.queues else len(queue.consumers)
        session.send(spec.Queue.DeclareOk, name, len(queue.ready), int(readers))

    def _consume(self, session: Session, _ticket: int, name: str, tag: str, *options: Any) -> None:
        queue = self._calls[name]
        queue.consumers.append(Consumer(session, tag, (options[-1] or {}).get("x-priority", 0)))
        session.send(spec.Basic.ConsumeOk, tag)
        self._deliver(queue)

    def _cancel(self, session: Session, tag: str, nowait: bool) -> None:
        for queue in self._calls.values():
            queue.consumers = [each for each in queue.consumers if each[:2] != (session, tag)]
        if not nowait:
            session.send(spec.Basic.CancelOk, tag)

    def _acknowledge(self, session: Session, tag: int, _multiple: bool) -> None:
        found = session.unacknowledged.pop(tag, None)
        if found is None:
            self._close_with(
                session, 406, f"PRECONDITION_FAILED - unknown delivery tag {tag}", spec.Basic.Ack
            )
            return
        message = found[1].message
        if any(each.message is message for each in self._stored()):
            return  # a scheduler that has sent it on
        message.acknowledged = True
        if not message.replies:
            message.abandoned.append(self.runtime.clock)
            self.told(f"broker forgets {message.name} without a reply")

    def _reject(self, session: Session, tag: int, requeue: bool) -> None:
        queue, stored = session.unacknowledged.pop(tag, (None, None))
        if queue is None or stored is None:
            self._close_with(
                session, 406, f"PRECONDITION_FAILED - unknown delivery tag {tag}", spec.Basic.Reject
            )
        elif requeue:
            self._enqueue(queue, stored)
        else:
            stored.message.abandoned.append(self.runtime.clock)

    def _nack(self, session: Session, tag: int, _multiple: bool, requeue: bool) -> None:
        self._reject(session, tag, requeue)

    def _publish(
        self, session: Session, _t: int, _e: str, key: str, _m: bool, _i: bool, content: Any
    ) -> None:
        body = content.body if isinstance(content.body, str) else content.body.decode()
        confirmed = next(session.confirms) if session.confirms else 0
        if len(body) > self.largest:
            text = f"PRECONDITION_FAILED - message size {len(body)} is larger than configured max size"
            self._close_with(session, 406, text)
            return
        inner = orjson.loads(orjson.loads(body)["oslo.message"])
        if key in self._calls:
            headers = content.properties.get("application_headers") or {}
            fate = self._publish_again(key, Stored(self.messages[inner["_msg_id"]], body, headers))
        else:
            fate = self._answer(key, inner)
        if fate == "returned":
            session.send(spec.Basic.Return, 312, "NO_ROUTE", "", key, content=content)
        if fate != "unconfirmed":
            session.send(spec.Basic.Ack, confirmed, False)
            return
        self.disturbed = self.runtime.clock + UNCONFIRMED
        if self.random.random() < 0.5:
            self.runtime.after(UNCONFIRMED * self.random.random(), self._break, session.connection)

    # -- messages --------------------------------------------------------------------------------------------

    def _answer(self, key: str, inner: Mapping[str, Any]) -> str:
        """Put a reply into its queue; return what becomes of it: "", "returned" or "unconfirmed"."""
        message = self.messages[inner["_msg_id"]]
        failure = orjson.loads(inner["failure"])["class"] if inner["failure"] else None
        reply = Reply(message, inner["result"], failure)
        fate, delivered = "", True
        if not reply.is_heartbeat and self.random.random() < self.silence:
            fate, delivered = "unconfirmed", self.random.random() < 0.5
            self.unconfirmed.append(reply)
        if key not in self.queues:
            return fate or "returned"
        handler = self.queues[key] or (lambda _reply: None)
        if delivered:
            self.runtime.after(0.001 + 0.01 * self.random.random(), handler, reply)
        if not reply.is_heartbeat:
            what = "" if not fate else f", {'has' if delivered else 'loses'} it and does not confirm it"
            self.told(f"broker takes the reply to {message.name}: {failure or 'hosts'}{what}")
        if delivered and not reply.is_heartbeat:
            message.replies.append(self.runtime.clock)
        return fate

    def _publish_again(self, key: str, stored: Stored) -> str:
        """Put a call into a queue once more; return "unconfirmed" if nobody is told of it."""
        fate, delivered = "", True
        if self.random.random() < self.silence:
            fate, delivered = "unconfirmed", self.random.random() < 0.5
        self.told(f"{stored.message.name} is published once more to {key}{fate and f', {fate}'}")
        if delivered:
            self._enqueue(self._calls[key], stored)
        return fate

    def _enqueue(self, queue: Queue, stored: Stored) -> None:
        queue.ready.append(stored)
        self._deliver(queue)

    def _stored(self) -> list[Stored]:
        """Return the calls in queues, and those that were delivered and not acknowledged."""
        sessions = [each for sessions in self._sessions.values() for each in sessions.values()]
        delivered = [stored for each in sessions for _, stored in each.unacknowledged.values()]
        return [*delivered, *(stored for queue in self._calls.values() for stored in queue.ready)]

    def _deliver(self, queue: Queue) -> None:
        while queue.ready and queue.consumers and self.up:
            # Within a step the one with the highest rank may be full.
            step = max(each.priority // PRIORITY_STEP for each in queue.consumers)
            first = [each for each in queue.consumers if each.priority // PRIORITY_STEP == step]
            session, consumer, _ = self.random.choice(first)
            stored, process = queue.ready.pop(0), session.connection.process
            again, stored.deliveries = stored.deliveries, stored.deliveries + 1
            tag = next(session.tags)
            session.unacknowledged[tag] = queue, stored
            self.told(f"{process} receives {stored.message.name}{' (redelivered)' if again else ''}")
            counts = again and queue.arguments.get("x-queue-type") == "quorum"
            content = amqp.Message(
                stored.body,
                content_type="application/json",
                content_encoding="utf-8",
                application_headers={**stored.headers, **({"x-delivery-count": again} if counts else {})},
            )
            session.send(spec.Basic.Deliver, consumer, tag, bool(again), "", queue.name, content=content)
            if self.random.random() < self.redelivery:
                soon = self.random.choice(SOON) * self.random.random()
                self.runtime.after(soon, self._lose, session.connection)

    def _lose(self, connection: Any) -> None:
        if connection in self._sessions:
            self.told(f"broker loses the connection of {connection.process}, which does not notice it")
            self._break(connection, UNNOTICED * self.random.random())
