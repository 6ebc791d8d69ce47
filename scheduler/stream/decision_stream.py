"""The decision stream of one scheduler: what it publishes, and what it receives of others.

::

    requests ── publish ──▶ writer ──▶ RabbitMQ stream ──▶ reader ──▶ membership
    (never wait)            a thread                       a thread   pending placements, mirror

A scheduler that starts reads the last minutes first, up to its own HELLO: so it knows what others have
decided and no database shows yet. Without a stream it serves as if it were alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
import threading
import time
from typing import Any
import uuid

from cachetools import LRUCache, TTLCache
from oslo_config import cfg
from oslo_log import log as logging

from scheduler.conf.partitions import own_name
from scheduler.logs import OutageLog, RateLimitedLogger
from scheduler.stream.broker import StreamBroker, broker_hosts, stream_of
from scheduler.stream.loops import StreamReader, StreamWriter
from scheduler.stream.records import Kind, Record, decode
from scheduler.stream.shared_decisions import LocalState, SharedDecisions

LOG = logging.getLogger(f"nova.{__name__}")

UNAVAILABLE = "Decision stream is unavailable; decisions of other schedulers are not read"
AVAILABLE = "Decision stream is available again"

GOODBYE_TIMEOUT = 1.0
"""Seconds in which a scheduler that stops writes what waits, and that it stops."""


MOST_SENDERS = 1000
"""Senders whose counters are remembered."""

REPEATED = 5000
"""A counter that goes back by at most so much belongs to a record that was written twice."""

FARTHEST = 1_000_000
"""A counter that leaps further was not written by the sender that it names."""


ALIVE_FOR = 15.0
"""Seconds after the last record of a scheduler in which it counts as alive."""

MOST_MEMBERS = 64
"""Other schedulers that are known at once."""


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """How the stream is doing.

    Attributes:
        wanted: Whether a stream is configured.
        in_step: Whether own records come back, so that others' are seen too.
        schedulers: How many schedulers are alive, this one included.
        dropped: Own records that could not be written.
        received: Records of others that were read.
        lost: Records of others that are missing by their counters.
        unreadable: Records that could not be read.
    """

    wanted: bool = False
    in_step: bool = False
    schedulers: int = 1
    dropped: int = 0
    received: int = 0
    lost: int = 0
    unreadable: int = 0


class Membership:
    """Which schedulers are alive, this one among them. Any thread may use it."""

    def __init__(self, own: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with this scheduler alone, which ``own`` identifies."""
        self._own = own
        self._lock = threading.Lock()
        self._hosts: TTLCache[str, str] = TTLCache(MOST_MEMBERS, ALIVE_FOR, clock)

    def alive(self) -> list[str]:
        """Return what identifies the schedulers that are alive, sorted."""
        with self._lock:
            return sorted({self._own, *self._hosts})

    def note(self, record: Record, age: float = 0.0) -> None:
        """Note that the sender of a record was alive ``age`` seconds ago, or that it stops.

        If it has just started, its predecessor on the same host has ended, whether or not it said goodbye. A
        sender without a HELLO or BEAT is ignored.
        """
        with self._lock:
            host = self._hosts.get(record.sender)
            if record.kind in {Kind.HELLO, Kind.BEAT}:
                host = record.host
            if host and record.kind == Kind.HELLO:
                for sender in [each for each, other in self._hosts.items() if other == host]:
                    del self._hosts[sender]
            if record.kind == Kind.BYE:
                self._hosts.pop(record.sender, None)
            elif host is not None and record.sender != self._own and age < ALIVE_FOR:
                self._hosts[record.sender] = host


class DecisionStream:
    """What a scheduler publishes and receives of others. ``start`` it in the process that serves.

    Attributes:
        membership: The schedulers that are alive.
        sharing: Publishes own decisions, and applies those of others.
    """

    def __init__(
        self,
        broker: StreamBroker,
        state: LocalState,
        own: str,
        host: str,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Put the parts together; nothing is connected to yet.

        Args:
            own: Identifies this process.
            host: Its service host.
            clock: Seconds since the epoch.
            monotonic: Seconds that only grow.
        """
        self._own = own
        self._state = state
        self._clock, self._monotonic = clock, monotonic
        self._outage = OutageLog(LOG, UNAVAILABLE, AVAILABLE, monotonic)
        self._warnings = RateLimitedLogger(LOG, clock=monotonic)
        self._last_counters: LRUCache[str, int] = LRUCache(MOST_SENDERS)  # by sender
        self.membership = Membership(own, monotonic)
        self._writer = StreamWriter(
            lambda: broker.connect("writer"),
            own,
            host,
            self._outage.report_failure,
            clock,
            monotonic,
        )
        self._reader = StreamReader(
            lambda: broker.connect("reader"),
            self.receive,
            self._publish_marker,
            self._outage.report_failure,
            monotonic,
        )
        self.sharing = SharedDecisions(state, self._writer.publish)
        self._applied = self._unreadable = self._lost = 0

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to read what others decide, and to publish what is decided here."""
        self._state.pending.listener = self.sharing
        self._reader.start()

    def wait_until_caught_up(self, timeout: float) -> bool:
        """Wait until what was written before the start has been read; see ``StreamReader``."""
        started = self._monotonic()
        caught_up = self._reader.wait_until_caught_up(timeout)
        if caught_up:
            LOG.info(
                "Read the decision stream in %.1f s; records: %d, pending placements: %d, schedulers: %d",
                self._monotonic() - started,
                self._applied,
                len(self._state.pending),
                len(self.membership.alive()),
            )
        else:
            LOG.warning(
                "Reading the decision stream timed out after %.1f s; serving requests without earlier "
                "decisions of other schedulers",
                self._monotonic() - started,
            )
        return caught_up

    def stop(self) -> None:
        """Announce that this scheduler stops, and stop, in ``GOODBYE_TIMEOUT`` seconds or little more."""
        self._writer.stop(GOODBYE_TIMEOUT)
        self._reader.stop(0)  # it may wait for a message; its thread closes the connection

    def status(self) -> StreamStatus:
        """Return how the stream is doing."""
        return StreamStatus(
            wanted=True,
            in_step=self.in_step,
            schedulers=len(self.membership.alive()),
            dropped=self._writer.dropped,
            received=self._applied,
            lost=self._lost,
            unreadable=self._unreadable,
        )

    @property
    def in_step(self) -> bool:
        """Whether what others decide is known here up to now."""
        return self._reader.in_step

    # -- reading, on the thread of the reader ----------------------------------------------------------------

    def _publish_marker(self) -> int:
        """Publish a record after a subscription, and return its counter.

        The writer starts only now, when it is known that the queue is a stream: in any other queue records
        would pile up.
        """
        self._writer.start()
        return self._writer.publish(Kind.HELLO)

    def receive(self, body: bytes | str) -> None:
        """Apply what a message of the stream says."""
        message = decode(body)
        for record in message.records:
            self._apply(record)
        if message.faults:
            self._unreadable += len(message.faults)
            self._warnings.warning(
                "unreadable", "Skipped an unreadable record of the decision stream: %.200s", message.faults[0]
            )

    def _apply(self, record: Record) -> None:
        """Apply a record that was not seen before."""
        reader, is_replayed = self._reader, self._reader.is_replaying
        if record.sender == self._own:
            if reader.is_new(record.counter, self._writer.published):
                self.membership.note(record)
                reader.see_own(record.counter)
                if not reader.is_replaying:
                    self._outage.report_success()
        elif self._is_new(record, is_replayed=is_replayed):
            self._applied += 1
            # Clocks of other hosts may be wrong; they matter only for what was written before subscribing.
            age = max(0.0, self._clock() - record.time) if is_replayed else 0.0
            self.membership.note(record, age)
            self.sharing.apply(record, age)

    def _is_new(self, record: Record, *, is_replayed: bool) -> bool:
        """Return whether a record was not seen before, and count those that are missing before it.

        Args:
            is_replayed: Whether it may be of the time before the subscription: then any counter that goes
                back belongs to a record that was seen before.
        """
        last = self._last_counters.get(record.sender)
        ahead = 1 if last is None else record.counter - last
        if ahead > FARTHEST or (ahead <= 0 and (is_replayed or ahead > -REPEATED)):
            return False
        self._last_counters[record.sender] = record.counter
        if ahead > 1:
            self._lost += ahead - 1
            self._warnings.warning(
                "lost", "Records of another scheduler are missing in the decision stream: %d", ahead - 1
            )
        return True


class NoStream:
    """The stream, and ``sharing``, of a scheduler that serves as if it were alone."""

    def __init__(self) -> None:
        self.sharing: Any = self

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def wait_until_caught_up(self, timeout: float) -> bool:
        """Return True: there is nothing to read."""
        return True

    def status(self) -> StreamStatus:
        """Return that no stream is wanted."""
        return StreamStatus()

    def _ignore(self, *_args: Any, **_options: Any) -> None:
        """Ignore what no other scheduler is to know."""

    claimed = released = refused = gone = _ignore


def make_stream(conf: cfg.ConfigOpts, state: LocalState) -> DecisionStream | NoStream:
    """Make the decision stream that the options describe; nothing is connected to yet.

    Raises:
        ConfigError: An option of the message bus cannot work.
    """
    if not conf.berth.decision_stream:
        return NoStream()
    hosts = broker_hosts(conf)
    if not hosts:
        LOG.info("Decisions are not shared with other schedulers: the transport is not RabbitMQ")
        return NoStream()
    return DecisionStream(
        StreamBroker(hosts, f"berth-scheduler {conf.host} decisions", stream_of(own_name(conf))),
        state,
        uuid.uuid4().hex,
        conf.host,
    )
