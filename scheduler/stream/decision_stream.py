"""The decision stream of one scheduler: what it tells others, and what it learns of them.

::

    requests ── publish ──▶ writer ──▶ RabbitMQ stream ──▶ reader ──▶ membership
    (never wait)            a thread                       a thread   pending placements, mirror

A scheduler that starts reads the last minutes first, up to its own HELLO: so it knows what others have
decided and no database shows yet. Without a stream it serves as if it were alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
import time
from typing import Protocol
import uuid

from oslo_config import cfg
from oslo_log import log as logging

from scheduler.conf.partitions import fingerprints, own_name
from scheduler.logs import OutageLog, RateLimitedLogger
from scheduler.stream.broker import BrokerOptions, StreamBroker, StreamConnection, StreamUnavailable
from scheduler.stream.catch_up import CatchUp
from scheduler.stream.membership import Member, Membership
from scheduler.stream.others_records import PRESENCE, OthersRecords
from scheduler.stream.owners import Divided, NoOwners, Owners
from scheduler.stream.presence import Presence
from scheduler.stream.reader import SILENT_AFTER, StreamReader
from scheduler.stream.records import Entry, Kind, Record, decode
from scheduler.stream.shared_decisions import LocalState, NoSharing, SharedDecisions
from scheduler.stream.writer import StreamWriter

LOG = logging.getLogger(__name__)

UNAVAILABLE = "The decision stream cannot be used; requests are served without what other schedulers decide"
AVAILABLE = "The decision stream is used again"


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


class DecisionStream:
    """What a scheduler tells others and learns of them. ``start`` it in the process that serves.

    Attributes:
        membership: The schedulers that are alive.
        owners: Which hosts and server groups each of them owns.
        sharing: What own decisions are told to.
    """

    def __init__(
        self,
        broker: Connector,
        state: LocalState,
        own: Member,
        divided: Divided = Divided(),  # noqa: B008 - it is immutable
        most_waiting: int = 10_000,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Put the parts together; nothing is connected to yet.

        Args:
            broker: Connects to the stream.
            state: What others' decisions lie over.
            own: This scheduler; its rate is measured here.
            divided: What is divided between schedulers.
            most_waiting: Records that wait for the broker at most.
            clock: Seconds since the epoch.
            monotonic: Seconds that only grow.
        """
        self._sender = own.sender
        self._state = state
        self._presence = Presence(own, state)
        self._outage = OutageLog(LOG, UNAVAILABLE, AVAILABLE, monotonic)
        self._warnings = RateLimitedLogger(LOG, clock=monotonic)
        self.membership = Membership(own, monotonic)
        self.owners = Owners(self.membership, lambda: self.in_step, divided)
        self._writer = StreamWriter(
            own.sender,
            lambda: broker.connect("writer"),
            self._presence.beat,
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
        self._others = OthersRecords(self.membership, self.sharing, own.layout, clock, monotonic)
        self._catch_up = CatchUp()
        self._unreadable = 0

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
        caught_up = self._catch_up.wait(timeout)
        if caught_up:
            LOG.info(
                "The decision stream was read up to now in %.1f s: %d records, %d placements pending, "
                "%d schedulers alive",
                time.monotonic() - started,
                self._others.applied,
                len(self._state.pending),
                len(self.membership.alive()),
            )
        else:
            LOG.warning(
                "The decision stream was not read up to now in %.1f seconds; requests are served without "
                "what other schedulers decided before",
                time.monotonic() - started,
            )
        return caught_up

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
            received=self._others.applied,
            lost=self._others.lost,
            unreadable=self._unreadable,
        )

    @property
    def in_step(self) -> bool:
        """Whether what others decide is known here up to now."""
        return self._catch_up.in_step and self._reader.silent_for() <= SILENT_AFTER

    def take_calls(self, topic: str) -> None:
        """Tell others where this scheduler takes calls that they send on, without a wait; "": nowhere."""
        self._presence.take_calls(topic)
        self._writer.publish(Kind.BEAT, about=self._presence.describe())

    def others_can_decide(self) -> bool:
        """Return whether another scheduler of this partition is alive that can decide requests."""
        own = self._sender
        return self.in_step and any(not each.unable for each in self.membership.peers() if each.sender != own)

    def announce(self, *, can_decide: bool) -> None:
        """Tell others whether this scheduler can decide requests, without a wait."""
        self._presence.unable = not can_decide
        self._writer.publish(Kind.BEAT, about=self._presence.describe())

    # -- writing ---------------------------------------------------------------------------------------------

    def _publish(self, kind: Kind, entry: Entry) -> None:
        if kind == Kind.CLAIMED:
            self._presence.count_placement()
        self._writer.publish(kind, entry)

    # -- reading, on the thread of the reader ----------------------------------------------------------------

    def _subscribed(self) -> None:
        """Publish a record: what is read before it is older than the subscription.

        The writer starts only now, when it is known that the queue is a stream: in any other queue records
        would pile up.
        """
        self._writer.start()
        kind = Kind.MARK if self._catch_up.once else Kind.HELLO
        self._catch_up.begin(self._writer.publish(kind, about=self._presence.describe()))

    def _reading_failed(self, error: StreamUnavailable) -> None:
        self._outage.report_failure(error)
        self._catch_up.note_failure(error)

    def receive(self, body: bytes) -> None:
        """Apply what a message of the stream tells."""
        message = decode(body)
        for record in message.records:
            if record.sender == self._sender:
                self._see_own(record)
            else:
                self._others.apply(record, is_replayed=self._catch_up.is_replaying)
        if message.faults:
            self._unreadable += len(message.faults)
            self._warnings.warning(
                "unreadable", "Record of the decision stream cannot be read: %.200s", message.faults[0]
            )

    def _see_own(self, record: Record) -> None:
        if not self._catch_up.is_new(record.counter, self._writer.published):
            return
        self._reader.see_own_record()
        if record.about and record.kind in PRESENCE:
            self.membership.update(Member.of(record.sender, record.about))
        self._catch_up.advance(record.counter)
        if not self._catch_up.is_replaying:
            self._outage.report_success()


class NoStream:
    """The decision stream of a scheduler that serves as if it were alone."""

    def __init__(self) -> None:
        self.sharing = NoSharing()
        self.owners: Owners | NoOwners = NoOwners()

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

    def take_calls(self, topic: str) -> None:
        """Do nothing: no other scheduler is known."""

    def others_can_decide(self) -> bool:
        """Return False: no other scheduler is known."""
        return False

    def announce(self, *, can_decide: bool) -> None:
        """Do nothing: no other scheduler is known."""


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
        Divided(lambda: conf.berth.owned_slices, lambda: conf.berth.forward_server_groups),
        most_waiting=conf.berth.decision_stream_queue,
    )
