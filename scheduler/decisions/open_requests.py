"""The requests in progress: their age, their step, and what they wait for.

``open_requests`` is the only place that makes the list. ``berth-explain waiting`` and the report
on SIGUSR2 show it.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self

import msgspec

from scheduler.bounds.waits import Wait
from scheduler.logs import sanitize

if TYPE_CHECKING:
    from scheduler.decisions.trace import Trace

#: Requests of a scheduler that are listed, the oldest; and instances that are named of each.
MOST_LISTED, MOST_INSTANCES = 100, 3


class OpenRequest(msgspec.Struct, frozen=True):
    """One request in progress.

    Attributes:
        instances: The UUIDs of the first instances.
        more_instances: How many more there are.
        age: Seconds since it was received.
        step: The stage that it is in, as metrics name stages; or that of a call that is not being decided:
            ``queue``, ``start``, ``reply``.
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

    @classmethod
    def of(
        cls, name: str, uuids: Sequence[str], received_at: float, step: str, wait: Wait | None, now: float
    ) -> Self:
        """Return a request by its id; times in seconds of ``time.monotonic``."""
        return cls(
            name,
            tuple(uuids[:MOST_INSTANCES]),
            max(0, len(uuids) - MOST_INSTANCES),
            round(max(0.0, now - received_at), 1),
            step,
            wait.text if wait else "",
            round(max(0.0, now - wait.since), 1) if wait else 0.0,
        )

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


def open_requests(
    calls: Iterable[tuple[str, OpenRequest]], traces: Iterable["Trace"], now: float
) -> list[OpenRequest]:
    """Return the requests in progress, the oldest first.

    Args:
        calls: The calls that are not answered yet, each with the identity of its message.
        traces: The decisions that are being made, some of them on these calls.
        now: Seconds of ``time.monotonic``.
    """
    deciding = list(traces)
    decided = {getattr(trace.request.call, "message_id", "") for trace in deciding}
    found = [request for message_id, request in calls if message_id not in decided]
    for trace in deciding:
        name, uuids = trace.record.request_id, trace.record.instances
        found.append(OpenRequest.of(name, uuids, trace.received_at, trace.step, trace.waits.current, now))
    return sorted(found, key=lambda request: -request.age)[:MOST_LISTED]
