"""The requests in progress: their age, their step, and what they wait for.

``open_requests`` is the only place that makes the list. ``berth-explain waiting`` and the report
on SIGUSR2 show it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from scheduler.bounds.waits import Wait
from scheduler.logs import sanitize

if TYPE_CHECKING:
    from scheduler.decisions.trace import Trace

#: Requests of a scheduler that are listed, the oldest; and instances that are named of each.
MOST_LISTED, MOST_INSTANCES = 100, 3

#: Steps of a call that is not decided at the moment. Those of a decision are in ``Trace.step``.
QUEUE, START, REPLY = "queue", "start", "reply"


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that was received and is not answered yet.

    Attributes:
        message_id: The identity of its message.
        received_at: When it was received, in seconds of ``time.monotonic``.
        step: ``QUEUE``, ``START`` or ``REPLY``.
        wait: What it waits for; None: for nothing.
    """

    message_id: str
    request_id: str
    instance_uuids: tuple[str, ...]
    received_at: float
    step: str
    wait: Wait | None


class OpenRequest(msgspec.Struct, frozen=True):
    """One request in progress.

    Attributes:
        instances: The UUIDs of the first instances.
        more_instances: How many more there are.
        age: Seconds since it was received.
        step: The stage that it is in, as metrics name stages; or ``queue``, ``start``, ``reply``.
        waits_for: What it waits for; "" for nothing.
        waited: Seconds of this wait.
    """

    request_id: str
    instances: tuple[str, ...]
    more_instances: int
    age: float
    step: str
    waits_for: str
    waited: float

    @property
    def instances_text(self) -> str:
        more = f" and {self.more_instances} more" if self.more_instances else ""
        return f"{', '.join(self.instances)}{more}"

    def __str__(self) -> str:
        """Return it as one line."""
        waits = f"for {self.waited:.1f} s waiting for {self.waits_for}" if self.waits_for else "not waiting"
        name = self.request_id or "request without id"
        line = f"{name}: age {self.age:.1f} s, step {self.step}, {waits}; instances: {self.instances_text}"
        return sanitize(line)


def open_requests(calls: Iterable[OpenCall], traces: Iterable["Trace"], now: float) -> list[OpenRequest]:
    """Return the requests in progress, the oldest first.

    Args:
        calls: The calls that are not answered yet.
        traces: The decisions that are being made, some of them on these calls.
        now: Seconds of ``time.monotonic``.
    """
    deciding = {trace: trace.message_id for trace in traces}
    decided = set(deciding.values())
    found = [(call.received_at, call) for call in calls if call.message_id not in decided]
    found += [(trace.received_at, _of_trace(trace)) for trace in deciding]
    found.sort(key=lambda one: one[0])
    return [_listed(call, now) for _, call in islice(found, MOST_LISTED)]


def _of_trace(trace: "Trace") -> OpenCall:
    return OpenCall(
        trace.message_id,
        trace.record.request_id,
        trace.request.instance_uuids,
        trace.received_at,
        trace.step,
        trace.waits.current,
    )


def _listed(call: OpenCall, now: float) -> OpenRequest:
    uuids, wait = call.instance_uuids, call.wait
    return OpenRequest(
        call.request_id,
        uuids[:MOST_INSTANCES],
        max(0, len(uuids) - MOST_INSTANCES),
        round(max(0.0, now - call.received_at), 1),
        call.step,
        wait.text if wait else "",
        round(max(0.0, now - wait.since), 1) if wait else 0.0,
    )
