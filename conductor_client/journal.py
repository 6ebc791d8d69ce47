"""What became of each instance: an in-memory journal, and how other processes write in it.

Nova's conductors and computes write an instance's state into a cell database. The stand-ins have none; they
report to the super-conductor, which keeps the story and tells it to whoever asks.
"""

import dataclasses
import threading
import time

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
class Event:
    """One thing that happened to an instance.

    host, cell: where, or None. alternates: how many further hosts were at hand. at: seconds since the epoch,
    by the clock of the one who reports. detail: a reason, or None. took: seconds that it took, or None.
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
class Record:
    """The story of one instance, in the order in which things happened."""

    instance_uuid: str
    events: list[Event] = dataclasses.field(default_factory=list)

    @property
    def last(self):
        """The event that holds now. A final one wins over what arrives late."""
        return max(self.events, key=lambda event: (event.state in FINAL, event.at))

    @property
    def state(self):
        """One of the states above."""
        return self.last.state

    @property
    def host(self):
        """Where it is, or None."""
        return self.last.host if self.state == ACTIVE else None

    @property
    def attempts(self):
        """On how many hosts its build was started."""
        return sum(event.state == BUILDING for event in self.events)


class Journal:
    """All records of a process; safe to use from several threads."""

    def __init__(self):
        self._records = {}
        self._changed = threading.Condition()

    def write(self, event):
        """Add an event."""
        with self._changed:
            record = self._records.setdefault(event.instance_uuid, Record(event.instance_uuid))
            record.events.append(event)
            record.events.sort(key=lambda one: one.at)
            self._changed.notify_all()

    def report(self, _context, **event):
        """Add an event given by its fields; the same call as ``Reporter.report``."""
        self.write(Event(**event))

    def records(self, instance_uuids=None):
        """The records of these instances, or of all, in the order in which they were first heard of."""
        with self._changed:
            chosen = self._records if instance_uuids is None else instance_uuids
            return [
                dataclasses.replace(self._records[uuid], events=list(self._records[uuid].events))
                for uuid in chosen
                if uuid in self._records
            ]

    def wait(self, instance_uuids, timeout):
        """Wait until all these instances are in a final state; returns whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: all(map(self._is_final, instance_uuids)), timeout)

    def _is_final(self, instance_uuid):
        record = self._records.get(instance_uuid)
        return record is not None and record.state in FINAL


class Reporter:
    """Writes in the journal of a super-conductor, by casts on its bus."""

    def __init__(self, bus):
        self._client = bus.client(TOPIC, VERSION)

    def report(self, context, **event):
        """Report an event by its fields; it is stamped here."""
        self._client.cast(context, "report", event=dataclasses.asdict(Event(**event)))
