"""What a scheduler tells others of itself in its beats."""

from dataclasses import replace

from scheduler.stream.membership import BEAT_INTERVAL, Member
from scheduler.stream.records import Sender
from scheduler.stream.room import Room, room_of
from scheduler.stream.shared_decisions import LocalState

SMOOTHING = 0.3
"""The share of the last interval in the rate that a beat tells."""


class Presence:
    """Describes a scheduler as it is now, and measures the rate at which it places instances.

    Attributes:
        unable: Whether an outage keeps it from deciding requests.
    """

    def __init__(self, own: Member, state: LocalState) -> None:
        """Begin without a rate.

        Args:
            own: The scheduler.
            state: The hosts whose room is told, if it serves a partition.
        """
        self._own = own
        self._state = state
        self._placed = 0
        self._rate = 0.0
        self.unable = False

    def count_placement(self) -> None:
        """Count an instance that was placed since the last beat."""
        self._placed += 1

    def take_calls(self, topic: str) -> None:
        """Tell from now on where the scheduler takes calls that others send on; "": nowhere."""
        self._own = replace(self._own, topic=topic)

    def beat(self) -> Sender:
        """Measure the rate since the last beat, and return what the next one tells."""
        placed, self._placed = self._placed, 0
        self._rate += SMOOTHING * (placed / BEAT_INTERVAL - self._rate)
        return self.describe()

    def describe(self) -> Sender:
        """Return what a record tells of the scheduler."""
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
            unable=self.unable,
        )

    def _room(self) -> Room:
        """Return the room of the partition that this scheduler serves; for others it does not matter."""
        if not self._own.partition:
            return Room()
        return room_of(self._state.table(), self._state.pending)
