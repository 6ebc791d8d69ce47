"""A model of the message broker, as a driver of oslo.messaging: the product's server runs on it unchanged.

As oslo.messaging has it today, a message is acknowledged when it is received, so a worker that dies later
leaves its caller without an answer. With ``late_acknowledgement`` it is acknowledged after its reply.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
import itertools
import random
from typing import Any

import orjson
from oslo_messaging._drivers import base

from tools.simulation.runtime import Process, Runtime, Task

# Seconds that oslo.messaging goes on trying to reply to a queue that does not exist.
MISSING_QUEUE = 60.0


@dataclass
class Message:
    """A call on its way.

    Attributes:
        replies: Times at which a reply was handed to the broker, or given up because its queue was gone.
        waits: For each time that it was processed: seconds from its start to its reply.
        working: The processes that have begun to process it and have not replied.
    """

    number: int
    body: dict[str, Any]
    context: dict[str, Any]
    reply_queue: str
    client_timeout: int
    redelivered: bool = False
    acknowledged: bool = False
    replies: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    working: set[Process] = field(default_factory=set)

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
    """One request queue, and the reply queues of callers.

    Attributes:
        up: False while nobody can connect.
        largest: Bytes of the largest message.
        redelivery: Probability that a received message comes once more, as after a lost acknowledgement.
        loss: Probability that a reply gets lost after the broker has confirmed it.
    """

    def __init__(
        self, runtime: Runtime, seed: object, told: Callable[[str], None], *, late_acknowledgement: bool
    ) -> None:
        self.up = True
        self.largest = 16 << 20
        self.redelivery = 0.0
        self.loss = 0.0
        self.queues: dict[str, Callable[[Reply], None]] = {}
        self.messages: list[Message] = []
        self.random = random.Random(f"broker {seed}")
        self.late_acknowledgement = late_acknowledgement
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
        message = Message(next(self._numbers), body, context, reply_queue, client_timeout)
        self.messages.append(message)
        self._enqueue(message)
        return message

    @property
    def waiting(self) -> list[Message]:
        """The messages that no worker has received."""
        return list(self._queue)

    # -- for workers -----------------------------------------------------------------------------------------

    def receive(self, stopped: Callable[[], bool]) -> Message | None:
        """Wait for the next message; None once ``stopped`` says so."""
        process = self.runtime.current.process
        while not stopped():
            if self.up and self._queue:
                message = self._queue.pop(0)
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

    def disconnected(self, process: Process) -> None:
        """Deliver once more what a consumer received and did not acknowledge."""
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
        self.up = True
        self.runtime.wake_all(self._outage)
        self.wake_consumers()

    def _enqueue(self, message: Message) -> None:
        self._queue.append(message)
        self.wake_consumers()

    def _deliver(self, message: Message, process: Process) -> None:
        self._unacknowledged.setdefault(process, []).append(message)
        self.told(f"receives {message.name}{' (redelivered)' if message.redelivered else ''}")
        if not self.late_acknowledgement:
            self.runtime.after(0.005 * self.random.random(), self.acknowledge, message, process)
        if self.random.random() < self.redelivery:
            self.runtime.after(5.0 * self.random.random(), self._again, message)

    def _again(self, message: Message) -> None:
        self.told(f"broker delivers {message.name} once more")
        message.redelivered = True
        self._enqueue(message)


class Incoming(base.RpcIncomingMessage):
    """A message as oslo.messaging's server sees it; replies as its AMQP driver does."""

    def __init__(self, broker: Broker, message: Message, process: Process) -> None:
        super().__init__(message.context, message.body, msg_id=str(message.number))
        self.client_timeout = message.client_timeout
        self.reply_q = message.reply_queue
        self.redelivered = message.redelivered
        self._broker = broker
        self._message = message
        self._process = process
        self._started = 0.0

    def acknowledge(self) -> None:
        """Note that the processing starts; the message was acknowledged, or will be after the reply."""
        self._started = self._broker.runtime.clock
        self._message.working.add(self._process)

    def requeue(self) -> None:
        """Do nothing, as the AMQP driver."""

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Send the result or the error; blocks while the broker is away."""
        broker, message = self._broker, self._message
        message.waits.append(broker.runtime.clock - self._started)
        message.working.discard(self._process)
        text = orjson.dumps(reply)
        name = failure[0].__name__ if failure else None
        try:
            if len(text) > broker.largest:
                raise ValueError(f"PRECONDITION_FAILED - message size {len(text)} is larger")
            self._send(Reply(message, None if failure else orjson.loads(text), name))
        finally:
            if broker.late_acknowledgement:
                broker.acknowledge(message, self._process)

    def heartbeat(self) -> None:
        """Tell the caller that its call is worked on."""
        if not self._broker.up or not self._broker.send(Reply(self._message)):
            raise ConnectionError("no heartbeat can be sent")

    def _send(self, reply: Reply) -> None:
        broker, message = self._broker, self._message
        deadline = broker.runtime.clock + MISSING_QUEUE
        while True:
            broker.wait_until_up()
            broker.runtime.sleep(0.002 * broker.random.random())
            if not broker.up:
                continue
            sent = broker.send(reply)
            if sent or broker.runtime.clock > deadline:
                break
            broker.runtime.sleep(0.25)
        message.replies.append(broker.runtime.clock)
        text = "replies to" if sent else "cannot reply to"
        broker.told(f"{text} {message.name}: {reply.failure or 'hosts'}")


class _Listener(base.PollStyleListener):
    def __init__(self, driver: "Driver") -> None:
        super().__init__()
        self.driver = driver
        self._process = driver.broker.runtime.current.process
        self._stopped = False
        self._process.at_exit.append(self._disconnect)

    def poll(
        self, timeout: float | None = None, batch_size: int = 1, batch_timeout: float | None = None
    ) -> list:
        message = self.driver.broker.receive(lambda: self._stopped)
        return [Incoming(self.driver.broker, message, self._process)] if message else []

    def stop(self) -> None:
        self._stopped = True
        self.driver.broker.wake_consumers()

    def cleanup(self) -> None:
        self._disconnect()

    def _disconnect(self) -> None:
        self.driver.broker.disconnected(self._process)


class Driver:
    """What oslo.messaging's transport uses of a driver. Made in the process that uses it."""

    missing_destination_retry_timeout = MISSING_QUEUE

    def __init__(self, conf: Any, broker: Broker) -> None:
        self.conf = conf
        self.broker = broker

    def require_features(self, requeue: bool = False) -> None:
        """Accept what is asked for."""

    def listen(self, _target: Any, batch_size: int, batch_timeout: float | None) -> Any:
        """Return a listener on the request queue."""
        return base.PollStyleListenerAdapter(_Listener(self), batch_size, batch_timeout)

    def cleanup(self) -> None:
        """Close the connections."""
        self.broker.disconnected(self.broker.runtime.current.process)
