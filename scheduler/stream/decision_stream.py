"""The decision stream of one scheduler: what it tells others, and what it learns of them.

::

    requests ── publish ──▶ writer ──▶ RabbitMQ stream ──▶ reader ──▶ membership
    (never wait)            a thread                       a thread   pending placements, mirror

A scheduler that starts reads the last minutes first, up to its own HELLO: so it knows what others have
decided and no database shows yet. Without a stream it serves as if it were alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
import math
import threading
import time
from typing import Protocol
import uuid

from oslo_config import cfg
from oslo_log import log as logging

from scheduler.conf.partitions import PREFIX, ROUTER, differing, fingerprints, own_name
from scheduler.hosts.table import HostTable
from scheduler.logs import OutageLog, RateLimitedLogger
from scheduler.stream.broker import BrokerOptions, StreamBroker, StreamConnection, StreamUnavailable
from scheduler.stream.group_owners import Call, GroupOwners
from scheduler.stream.membership import BEAT_INTERVAL, Member, Membership
from scheduler.stream.reader import SILENT_AFTER, StreamReader
from scheduler.stream.records import Entry, Kind, Record, Sender, decode
from scheduler.stream.room import Room, room_of
from scheduler.stream.sender_counters import SenderCounters
from scheduler.stream.shared_decisions import LocalState, NoSharing, SharedDecisions
from scheduler.stream.slices import Mask, OwnedSlices
from scheduler.stream.writer import StreamWriter

LOG = logging.getLogger(__name__)

UNAVAILABLE = "The decision stream cannot be used; requests are served without what other schedulers decide"
AVAILABLE = "The decision stream is used again"

MOST_REFUSALS = 3
"""Refusals of the broker, one after the other, after which a start waits for the stream no longer."""

LAYOUT_REPORT_INTERVAL = 3600.0
"""Seconds between two reports of a scheduler whose options describe other partitions."""

SMOOTHING = 0.3
"""The share of the last interval in the rate that a beat tells."""

_PRESENCE = frozenset({Kind.HELLO, Kind.BEAT})


class Connector(Protocol):
    """Connects to the stream."""

    def connect(self, purpose: str) -> StreamConnection:
        """Connect to the next host of the broker; raises StreamUnavailable."""


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """How the stream is doing.

    Attributes:
        wanted: Whether a stream is configured.
        in_step: Whether own records come back, so that others' are seen too.
        schedulers: How many schedulers are alive, this one included.
        published: Records that this scheduler has published.
        dropped: Those of them that could not be written.
        received: Records of others that were read.
        lost: Records of others that are missing by their counters.
        unreadable: Records that could not be read.
    """

    wanted: bool = False
    in_step: bool = False
    schedulers: int = 1
    published: int = 0
    dropped: int = 0
    received: int = 0
    lost: int = 0
    unreadable: int = 0

    @property
    def alone(self) -> bool:
        """Whether it is known that no other scheduler is alive."""
        return self.in_step and self.schedulers == 1


class DecisionStream:
    """What a scheduler tells others and learns of them. ``start`` it in the process that serves.

    Attributes:
        membership: The schedulers that are alive.
        slices: The hosts that this one owns.
        sharing: What own decisions are told to.
    """

    def __init__(
        self,
        broker: Connector,
        state: LocalState,
        own: Member,
        owned_slices: Callable[[], bool] = lambda: True,
        group_owners: Callable[[], bool] = lambda: True,
        most_waiting: int = 10_000,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Put the parts together; nothing is connected to yet.

        Args:
            broker: Connects to the stream.
            state: What others' decisions lie over.
            own: This scheduler; its rate is measured here.
            owned_slices: Whether hosts are divided between schedulers.
            group_owners: Whether server groups are divided between schedulers.
            most_waiting: Records that wait for the broker at most.
            clock: Seconds since the epoch.
            monotonic: Seconds that only grow.
        """
        self._clock = clock
        self._own = own
        self._state = state
        self._outage = OutageLog(LOG, UNAVAILABLE, AVAILABLE, monotonic)
        self._warnings = RateLimitedLogger(LOG, clock=monotonic)
        self._layout_warnings = RateLimitedLogger(LOG, LAYOUT_REPORT_INTERVAL, clock=monotonic)
        self.membership = Membership(own, monotonic)
        self.slices = OwnedSlices(self.membership, owned_slices)
        self._groups = GroupOwners(self.membership, group_owners)
        self._writer = StreamWriter(
            own.sender,
            lambda: broker.connect("writer"),
            self._beat,
            self._outage.report_failure,
            most_waiting,
            clock,
            monotonic,
        )
        self._reader = StreamReader(
            lambda: broker.connect("reader"),
            self.receive,
            self._subscribed,
            self._reading_failed,
            monotonic,
        )
        self.sharing = SharedDecisions(state, self._publish)
        self._counters = SenderCounters(self._warnings)
        self._own_counter = -1
        self._marker = math.inf
        self._caught_up = False
        self._refusals = 0
        self._start_is_over = threading.Event()
        self._in_step = False
        self._placed = 0
        self._rate = 0.0
        self._received = self._unreadable = 0

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to read what others decide, and to tell them what is decided here."""
        self._state.pending.listener = self.sharing
        self._reader.start()

    def wait_until_caught_up(self, timeout: float) -> bool:
        """Wait until what was written before the start has been read, ``timeout`` seconds at most.

        It is not waited for while the broker refuses.

        Returns:
            Whether it has been.
        """
        started = time.monotonic()
        self._start_is_over.wait(timeout)
        if self._caught_up:
            LOG.info(
                "The decision stream was read up to now in %.1f s: %d records, %d placements pending, "
                "%d schedulers alive",
                time.monotonic() - started,
                self._received,
                len(self._state.pending),
                len(self.membership.alive()),
            )
        else:
            LOG.warning(
                "The decision stream was not read up to now in %.1f seconds; requests are served without "
                "what other schedulers decided before",
                time.monotonic() - started,
            )
        return self._caught_up

    def stop(self, timeout: float) -> None:
        """Tell others that this scheduler stops, and stop, in ``timeout`` seconds at most."""
        self._reader.stop(timeout / 2)
        self._writer.stop(timeout / 2)

    def status(self) -> StreamStatus:
        """Return how the stream is doing."""
        return StreamStatus(
            wanted=True,
            in_step=self.in_step,
            schedulers=len(self.membership.alive()),
            published=self._writer.published,
            dropped=self._writer.dropped,
            received=self._received,
            lost=self._counters.lost,
            unreadable=self._unreadable,
        )

    @property
    def in_step(self) -> bool:
        """Whether what others decide is known here up to now."""
        return self._in_step and self._reader.silent_for() <= SILENT_AFTER

    def owned(self, table: HostTable) -> Mask | None:
        """Return which hosts of a table this scheduler prefers; None: all alike."""
        return self.slices.owned(table)

    def take_calls(self, topic: str) -> None:
        """Tell others where this scheduler takes calls that they send on, without a wait; "": nowhere."""
        self._own = replace(self._own, topic=topic)
        self._writer.publish(Kind.BEAT, about=self._about())

    def send_on_to_owner(self, group: str, call: Call | None) -> None:
        """Send a call on to the scheduler that decides for its server group, if that is another one.

        See ``GroupOwners.send_on``.
        """
        if call is not None and self.in_step:
            self._groups.send_on(group, call)

    # -- writing ---------------------------------------------------------------------------------------------

    def _publish(self, kind: Kind, entry: Entry) -> None:
        if kind == Kind.CLAIMED:
            self._placed += 1
        self._writer.publish(kind, entry)

    def _beat(self) -> Sender:
        """Measure the rate since the last beat, and return what the next one tells."""
        placed, self._placed = self._placed, 0
        self._rate += SMOOTHING * (placed / BEAT_INTERVAL - self._rate)
        return self._about()

    def _about(self) -> Sender:
        own = self._own
        room = self._room()
        return Sender(
            host=own.host,
            rate=round(self._rate, 3),
            partition=own.partition,
            topic=own.topic,
            free_mb=room.free_mb,
            total_mb=room.total_mb,
            cells=room.cells,
            layout=own.layout,
        )

    def _room(self) -> Room:
        """Return the room of the partition that this scheduler serves; for others it does not matter."""
        if self._own.partition in {"", ROUTER}:
            return Room()
        return room_of(self._state.table(), self._state.pending)

    # -- reading, on the thread of the reader ----------------------------------------------------------------

    def _subscribed(self) -> None:
        """Publish a record: what is read before it is older than the subscription.

        The writer starts only now, when it is known that the queue is a stream: in any other queue records
        would pile up.
        """
        self._writer.start()
        kind = Kind.MARK if self._caught_up else Kind.HELLO
        self._marker = self._writer.publish(kind, about=self._about())

    def _reading_failed(self, error: StreamUnavailable) -> None:
        self._outage.report_failure(error)
        self._refusals = self._refusals + 1 if error.refused else 0
        if self._refusals >= MOST_REFUSALS:
            self._start_is_over.set()

    def receive(self, body: bytes) -> None:
        """Apply what a message of the stream tells."""
        message = decode(body)
        for record in message.records:
            if record.sender == self._own.sender:
                self._see_own(record)
            elif self._counters.is_new(record, is_replayed=self._is_replaying):
                self._received += 1
                self._apply(record)
        if message.faults:
            self._unreadable += len(message.faults)
            self._warnings.warning(
                "unreadable", "Record of the decision stream cannot be read: %.200s", message.faults[0]
            )

    @property
    def _is_replaying(self) -> bool:
        """Whether what is read may be older than the subscription."""
        return self._marker < math.inf

    def _see_own(self, record: Record) -> None:
        if not self._own_counter < record.counter < self._writer.published:
            return
        self._own_counter = record.counter
        self._reader.see_own_record()
        if record.about and record.kind in _PRESENCE:
            self.membership.update(Member.of(record.sender, record.about))
        if record.counter >= self._marker:
            self._marker = math.inf
            self._in_step = True
            self._caught_up = True
            self._refusals = 0
            self._start_is_over.set()
        if not self._is_replaying:
            self._outage.report_success()

    def _apply(self, record: Record) -> None:
        # Clocks of other hosts may be wrong; they matter only for what was written before the subscription.
        age = max(0.0, self._clock() - record.time) if self._is_replaying else 0.0
        if record.kind == Kind.BYE:
            self.membership.remove(record.sender)
        elif record.about and record.kind in _PRESENCE:
            self.membership.update(Member.of(record.sender, record.about), age)
            self._compare_layout(record.about)
        else:
            self.membership.hear(record.sender, age)
            self.sharing.apply(record, age)

    def _compare_layout(self, other: Sender) -> None:
        """Report a scheduler whose options describe other partitions, if both describe any."""
        own = self._own.layout
        if not own or not other.layout or other.layout == own:
            return
        sections = [f"[{PREFIX}{name}]" for name in differing(own, other.layout)]
        self._layout_warnings.warning(
            other.host,
            "Scheduler %s has other options than this one in %s, or only one has the section: requests "
            "may end without a host, or in the wrong partition",
            other.host,
            ", ".join(sections),
        )


class NoStream:
    """The decision stream of a scheduler that serves as if it were alone."""

    def __init__(self) -> None:
        self.sharing = NoSharing()

    def start(self) -> None:
        """Do nothing."""

    def wait_until_caught_up(self, timeout: float) -> bool:
        """Return True: there is nothing to read."""
        return True

    def stop(self, timeout: float) -> None:
        """Do nothing."""

    def status(self) -> StreamStatus:
        """Return that no stream is wanted."""
        return StreamStatus()

    def owned(self, table: HostTable) -> Mask | None:
        """Return None: all hosts are alike."""

    def take_calls(self, topic: str) -> None:
        """Do nothing: no other scheduler is known."""

    def send_on_to_owner(self, group: str, call: Call | None) -> None:
        """Do nothing: this scheduler decides for all groups."""


def make_stream(conf: cfg.ConfigOpts, state: LocalState) -> DecisionStream | NoStream:
    """Make the decision stream that the options describe; nothing is connected to yet.

    Args:
        conf: The options.
        state: What others' decisions lie over.

    Raises:
        ConfigError: An option of the message bus cannot work.
    """
    if not conf.berth.decision_stream:
        return NoStream()
    options = BrokerOptions.from_conf(conf)
    if options is None:
        LOG.info("Decisions are not shared with other schedulers: the transport is not RabbitMQ")
        return NoStream()
    return DecisionStream(
        StreamBroker(options, f"berth-scheduler {conf.host} decisions"),
        state,
        Member(uuid.uuid4().hex, conf.host, partition=own_name(conf), layout=fingerprints(conf)),
        owned_slices=lambda: conf.berth.owned_slices,
        group_owners=lambda: conf.berth.forward_server_groups,
        most_waiting=conf.berth.decision_stream_queue,
    )
