"""The history of each instance: an in-memory journal, and reports to it from other processes.

Nova's conductors and computes write the state of an instance into a cell database. The stand-ins have none;
they report to the super-conductor, which keeps the history.
"""

from collections.abc import Iterable, Sequence
import dataclasses
import threading
import time

from conductor_client.bus import Bus

SCHEDULING = "scheduling"
BUILDING = "building"
FAILED = "failed"
REFUSED = "refused"
ACTIVE = "active"
ERROR = "error"

#: States after which nothing more happens to an instance.
FINAL = (ACTIVE, ERROR)

TOPIC = "conductor"
VERSION = "1.0"


@dataclasses.dataclass(frozen=True)
class InstanceEvent:
    """One thing that happened to an instance.

    Attributes:
        instance_uuid: The instance.
        state: One of the states above.
        host: The service host, or None.
        cell: The cell, or None.
        alternates: Number of alternates that were left.
        detail: A reason, or None.
        took: Duration in seconds, or None.
        at: Seconds since the epoch, by the clock of the process that reports.
    """

    instance_uuid: str
    state: str
    host: str | None = None
    cell: str | None = None
    alternates: int = 0
    detail: str | None = None
    took: float | None = None
    at: float = dataclasses.field(default_factory=time.time)


@dataclasses.dataclass
class InstanceHistory:
    """The history of one instance, in order of time."""

    instance_uuid: str
    events: list[InstanceEvent] = dataclasses.field(default_factory=list)

    @property
    def last(self) -> InstanceEvent:
        """The current event. A final one takes precedence over one that arrives late."""
        return max(self.events, key=lambda event: (event.state in FINAL, event.at))

    @property
    def state(self) -> str:
        """One of the states above."""
        return self.last.state

    @property
    def host(self) -> str | None:
        """The host of an active instance, or None."""
        return self.last.host if self.state == ACTIVE else None

    @property
    def attempts(self) -> int:
        """The number of hosts on which its build was started."""
        return sum(event.state == BUILDING for event in self.events)


class Journal:
    """All records of a process. Any thread may call the methods."""

    def __init__(self) -> None:
        self._records: dict[str, InstanceHistory] = {}
        self._changed = threading.Condition()

    def write(self, event: InstanceEvent) -> None:
        """Add an event."""
        with self._changed:
            record = self._records.setdefault(event.instance_uuid, InstanceHistory(event.instance_uuid))
            record.events.append(event)
            record.events.sort(key=lambda one: one.at)
            self._changed.notify_all()

    def note(self, _context, instance_uuid, state, **more) -> None:
        """Add an event of now; ``more`` has other attributes of it."""
        self.write(InstanceEvent(instance_uuid, state, **more))

    def records(self, instance_uuids: Iterable[str] | None = None) -> list[InstanceHistory]:
        """Return the records of these instances, or of all, in the order of their first events."""
        with self._changed:
            chosen = self._records if instance_uuids is None else instance_uuids
            return [
                dataclasses.replace(self._records[uuid], events=list(self._records[uuid].events))
                for uuid in chosen
                if uuid in self._records
            ]

    def wait(self, instance_uuids: Sequence[str], timeout: float) -> bool:
        """Wait until all these instances are in a final state; return whether they are."""
        records = self._records
        with self._changed:
            return self._changed.wait_for(
                lambda: all(uuid in records and records[uuid].state in FINAL for uuid in instance_uuids),
                timeout,
            )


class Reporter:
    """Writes to the journal of a super-conductor what happens in a cell, by casts on its bus."""

    def __init__(self, bus: Bus, cell: str) -> None:
        self._client = bus.client(TOPIC, VERSION)
        self._cell = cell

    def note(self, context, instance_uuid, state, **more) -> None:
        """Report an event of now; as ``Journal.note``."""
        event = InstanceEvent(instance_uuid, state, cell=self._cell, **more)
        self._client.cast(context, "report", event=dataclasses.asdict(event))
