"""The records of other schedulers, and their effect here."""

from collections.abc import Callable

from oslo_log import log as logging

from scheduler.conf.partitions import PREFIX, differing
from scheduler.logs import RateLimitedLogger
from scheduler.stream.membership import Member, Membership
from scheduler.stream.records import Kind, Record, Sender
from scheduler.stream.sender_counters import SenderCounters
from scheduler.stream.shared_decisions import SharedDecisions

LOG = logging.getLogger(__name__)

LAYOUT_REPORT_INTERVAL = 3600.0
"""Seconds between two reports of a scheduler whose options describe other partitions."""

PRESENCE = frozenset({Kind.HELLO, Kind.BEAT})
"""The records that tell that a scheduler is alive, and how it is doing."""


class OthersRecords:
    """Applies each record of another scheduler once. For the thread of the reader.

    Attributes:
        applied: How many were applied.
    """

    def __init__(
        self,
        membership: Membership,
        sharing: SharedDecisions,
        layout: tuple[str, ...],
        clock: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        """Begin with no record seen.

        Args:
            membership: Learns who is alive.
            sharing: Applies what they decide.
            layout: The partitions that the options of this scheduler describe.
            clock: Seconds since the epoch.
            monotonic: Seconds that only grow, for the interval between warnings.
        """
        self.applied = 0
        self._membership = membership
        self._sharing = sharing
        self._layout = layout
        self._clock = clock
        self._counters = SenderCounters(RateLimitedLogger(LOG, clock=monotonic))
        self._layout_warnings = RateLimitedLogger(LOG, LAYOUT_REPORT_INTERVAL, clock=monotonic)

    @property
    def lost(self) -> int:
        """How many are missing, by the counters of their senders."""
        return self._counters.lost

    def apply(self, record: Record, *, is_replayed: bool) -> None:
        """Apply a record that was not seen before.

        Args:
            record: The record.
            is_replayed: Whether it may have been written before the subscription.
        """
        if not self._counters.is_new(record, is_replayed=is_replayed):
            return
        self.applied += 1
        # Clocks of other hosts may be wrong; they matter only for what was written before the subscription.
        age = max(0.0, self._clock() - record.time) if is_replayed else 0.0
        if record.kind == Kind.BYE:
            self._membership.remove(record.sender)
        elif record.about and record.kind in PRESENCE:
            self._membership.update(Member.of(record.sender, record.about), age)
            self._compare_layout(record.about)
        else:
            self._membership.hear(record.sender, age)
            self._sharing.apply(record, age)

    def _compare_layout(self, other: Sender) -> None:
        """Report a scheduler whose options describe other partitions, if both describe any."""
        if not self._layout or not other.layout or other.layout == self._layout:
            return
        sections = [f"[{PREFIX}{name}]" for name in differing(self._layout, other.layout)]
        self._layout_warnings.warning(
            other.host,
            "Scheduler %s has other options than this one in %s, or only one has the section: requests "
            "may end without a host, or in the wrong partition",
            other.host,
            ", ".join(sections),
        )
