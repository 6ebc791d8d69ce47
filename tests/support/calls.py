"""Calls as they are received, without a broker: what becomes of each is noted."""

import itertools

from oslo_serialization import jsonutils

from scheduler.request.past import Past
from scheduler.rpc import wire
from scheduler.rpc.bus import NobodyReads
from scheduler.rpc.calls import Call


class Received(Call):
    """A call that notes what becomes of its message.

    Attributes:
        ends: That, and the replies of the call, in order.
    """

    is_acknowledged = outranked = is_redelivery = False
    is_current = can_be_published = True

    def __init__(self, frame, ends, received, past, **state):
        super().__init__(frame, received=received, past=past)
        self.ends = ends
        vars(self).update(state)

    def acknowledge(self):
        self.ends.append("acknowledged")
        self.is_acknowledged = True

    def requeue(self):
        self.ends.append("requeued")

    def publish_again(self):
        self.ends += ["published again"] * self.can_be_published
        return self.can_be_published


class Bus:
    """A broker that takes what it is told to.

    Attributes:
        sent: Replies and heartbeats, as they are read by callers.
        errors: What the next replies meet, in order.
        unread: Queues that nobody reads.
        unknown: Queues that cannot be looked at.
        ends: Of each call, where its replies are noted.
    """

    patience = 60.0
    exchange = "nova"

    def __init__(self):
        self.sent, self.errors, self.looks = [], [], []
        self.unread, self.unknown, self.ends = set(), set(), {}

    def reply(self, queue, message, deadline, on_failure=lambda: None, *, to_reader=True):
        body = jsonutils.loads(message["oslo.message"])
        if body["ending"] and self.errors:
            error = self.errors.pop(0)
            self.ends.get(body["_msg_id"], []).append(_name_of(body))
            raise error
        if queue in self.unread:
            raise NobodyReads(f"nobody reads from queue {queue}")
        self.sent.append(body)
        if body["ending"]:
            self.ends.get(body["_msg_id"], []).append(_name_of(body))

    def is_read(self, queue):
        self.looks.append(queue)
        if queue in self.unknown:
            raise OSError("timed out")
        return queue not in self.unread

    @property
    def beats(self):
        """Whose heartbeats were sent."""
        return [body["_msg_id"] for body in self.sent if not body["ending"]]


def _name_of(body):
    return jsonutils.loads(body["failure"])["class"] if body["failure"] else "hosts"


_numbers = itertools.count(1)


def make_call(frame=None, bus=None, *, past=Past.NONE, received=0.0, queue="reply", timeout=None, **state):
    """Return a call of a frame; ``call.ends`` is what becomes of it."""
    number = next(_numbers)
    sent = {"_msg_id": f"m{number}", "_reply_q": queue, "_unique_id": f"u{number}", "_timeout": timeout}
    ends = []
    if bus is not None:
        bus.ends[f"m{number}"] = ends
    return Received(wire.read({**sent, **(frame or {})}), ends, received, past, **state)
