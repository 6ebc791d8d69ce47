"""Calls to other schedulers, each with a reply queue of its own while it is under way.

A scheduler releases what it claimed if the reply queue is gone when it replies. So a call that is given up is
given up for good: its reply queue is deleted, and what came until then is still taken.

The client of oslo.messaging is not used as it has one reply queue for all calls, so that a late reply would
be confirmed to its sender and dropped, says nothing of heartbeats, lets a call wait in its queue for as long
as its caller waits, and drops of an error what its class does not know (``final``).
"""

from collections.abc import Callable, Mapping
from functools import partial
import queue
import time
from typing import NamedTuple
import uuid

from oslo_log import log as logging
from oslo_serialization import jsonutils

from scheduler.errors import ReturnedToBroker
from scheduler.rpc import library
from scheduler.rpc.bus import Bus, NobodyReads
from scheduler.rpc.consumer import DELIVERED_BEFORE, Task
from scheduler.rpc.library import RabbitMessage, ReadingConnection

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds in which the broker must confirm a call.
SEND_TIMEOUT = 3.0

#: Seconds that the thread that reads may take to make or delete a reply queue.
QUEUE_TIMEOUT = 5.0

#: Reply queues that are kept for the next calls, and how many are made at a time.
SPARE = 16


class ErrorReply(NamedTuple):
    """An error that a scheduler replied.

    Attributes:
        name: The name of its class.
        module: The module of its class.
        text: Its text.
        kwargs: What a caller's class is rebuilt with besides the text.
    """

    name: str
    module: str
    text: str
    kwargs: Mapping[str, object]


class NoReply(Exception):
    """No scheduler has replied, and none can reply any more."""


class _ReplyQueue:
    """A queue for the replies to one call at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.received: queue.SimpleQueue[RabbitMessage | None] = queue.SimpleQueue()

    def __call__(self, message: RabbitMessage) -> None:
        """Take a message of the broker, in the thread that reads."""
        message.acknowledge()
        self.received.put(message)


class Client:
    """Calls the schedulers of a topic. Any thread may use it, once its server is started."""

    def __init__(self, bus: Bus, on_connection: Callable[[Task], None]) -> None:
        """Call over a bus.

        Args:
            on_connection: Lets the thread that reads requests do something: it reads replies, too.
        """
        self._bus, self._on_connection = bus, on_connection
        self._spare: queue.SimpleQueue[_ReplyQueue] = queue.SimpleQueue()
        # a reply to the first call would find no reader of them yet
        on_connection(partial(self._try, self._make_queues))

    def call(
        self,
        topic: str,
        message: Mapping[str, object],
        silence: float,
        total: float,
        heard: Callable[[], None] = lambda: None,
        *,
        again: bool = False,
    ) -> object:
        """Return what a scheduler of a topic replies: a result, or an ``ErrorReply``.

        Args:
            message: Method, arguments, version and context, as they are on the wire.
            silence: Seconds without any sign of the scheduler. It is to send several heartbeats in them.
            total: Seconds in all.
            heard: Called at each sign of the scheduler.
            again: Whether another scheduler may have had the same call.

        Raises:
            NoReply: None came in time. What comes later finds no reply queue.
            ReturnedToBroker: The broker cannot be reached, and the reply may still come.
        """
        replies = self._take()
        identity = uuid.uuid4().hex
        body = {
            **message,
            "_msg_id": identity,
            "_reply_q": replies.name,
            "_timeout": max(2, int(silence / 2)),
            "_unique_id": uuid.uuid4().hex,
        }
        try:
            self._bus.publish(
                topic,
                library.envelope_of(body),
                time.monotonic() + SEND_TIMEOUT,
                headers={DELIVERED_BEFORE: True} if again else {},
                # what no scheduler takes in this time must not be found by one that starts later
                expiration=min(silence, total),
            )
        except NobodyReads:
            self._spare.put(replies)
            raise NoReply(f"there is no queue {topic}") from None
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, it may have been sent
            LOG.warning("Call to %s may not have been sent: %s", topic, error)
            reply = self._give_up(replies, identity)
        else:
            reply = self._wait(replies, identity, silence, time.monotonic() + total, heard)
        if reply is None:
            raise NoReply(f"no scheduler of {topic} was heard for {silence:g} seconds")
        return _reply_of(reply)

    def _wait(
        self, replies: _ReplyQueue, identity: str, silence: float, end: float, heard: Callable[[], None]
    ) -> RabbitMessage | None:
        """Return the reply; None if none came in time, and none can come any more."""
        try:
            reply = _receive(replies, identity, silence, end, heard)
        except queue.Empty:
            return self._give_up(replies, identity)
        self._spare.put(replies)
        return reply

    def _give_up(self, replies: _ReplyQueue, identity: str) -> RabbitMessage | None:
        """Delete a reply queue; return the reply if it came all the same.

        Raises:
            ReturnedToBroker: The queue was not deleted in time.
        """
        self._on_connection(partial(self._try, partial(self._delete, replies)))
        try:
            return _receive(replies, identity, QUEUE_TIMEOUT, time.monotonic() + QUEUE_TIMEOUT)
        except queue.Empty:
            raise ReturnedToBroker("a reply queue cannot be deleted in time") from None

    def _take(self) -> _ReplyQueue:
        """Return a reply queue that no call uses.

        Raises:
            ReturnedToBroker: The broker does not make one in time.
        """
        if self._spare.qsize() <= SPARE // 2:
            self._on_connection(partial(self._try, self._make_queues))
        try:
            return self._spare.get(timeout=QUEUE_TIMEOUT)
        except queue.Empty:
            raise ReturnedToBroker("the broker made no reply queue in time") from None

    # -- on the thread that reads ----------------------------------------------------------------------------

    def _try(self, task: Task, connection: ReadingConnection) -> None:
        """Make or delete queues. Without the broker to delete fails, and to make waits for it, as to read."""
        try:
            task(connection)
        except Exception as error:  # noqa: BLE001 - the thread that waits gives up in time
            LOG.warning("Cannot make or delete reply queues: %.300s", error)

    def _make_queues(self, connection: ReadingConnection) -> None:
        for _ in range(SPARE - self._spare.qsize()):
            replies = _ReplyQueue(f"reply_{uuid.uuid4().hex}")
            connection.declare_direct_consumer(replies.name, replies)
            self._spare.put(replies)

    def _delete(self, replies: _ReplyQueue, connection: ReadingConnection) -> None:
        """Delete a queue; what came until then is received before the None, on the same channel."""
        consumer = next(each for each in connection.consumers if each.queue_name == replies.name)
        tag = connection.remove(consumer)
        # RabbitMQ reports that the queue was deleted; amqp would take this for an error
        connection.channel.cancel_callbacks[str(tag)] = lambda _tag: None
        connection.channel.queue_delete(replies.name)
        replies.received.put(None)


def _receive(
    replies: _ReplyQueue,
    identity: str,
    silence: float,
    end: float,
    heard: Callable[[], None] = lambda: None,
) -> RabbitMessage | None:
    """Return the reply to a call; None if its queue was deleted before.

    Raises:
        queue.Empty: Nothing came for so many seconds, or no reply until the end.
    """
    while True:
        message = replies.received.get(timeout=max(0.0, min(silence, end - time.monotonic())))
        if message is None:
            return None
        if message.get("_msg_id") == identity:
            heard()
            if message.get("ending"):
                return message


def _reply_of(message: RabbitMessage) -> object:
    failure = message.get("failure")
    if not failure:
        return message.get("result")
    found = jsonutils.loads(str(failure))
    name, module = str(found.get("class")), str(found.get("module"))
    return ErrorReply(name, module, str(found.get("message")), found.get("kwargs") or {})
