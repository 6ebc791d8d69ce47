"""Which schedulers are alive: every scheduler says so in the decision stream every few seconds."""

from collections.abc import Callable
import math
import threading
import time

from scheduler.stream.records import Member

ALIVE_FOR = 15.0
"""Seconds after the last record of a scheduler in which it counts as alive."""

MOST_MEMBERS = 64
"""Other schedulers that are known at once; further ones are left out."""


class Membership:
    """The schedulers of a cloud that are alive, this one among them. Any thread may use it.

    Attributes:
        own: This scheduler, as the others know it.
    """

    def __init__(self, own: Member, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with this scheduler alone."""
        self.own = own
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Member, float]] = {}

    def alive(self) -> list[Member]:
        """Return the schedulers that are alive, this one among them, in the order of their senders."""
        with self._lock:
            self._forget_silent()
            members = [self.own, *(member for member, _ in self._known.values())]
        return sorted(members, key=lambda member: member.sender)

    def update(self, member: Member, age: float = 0.0, *, has_started: bool = False) -> None:
        """Note what a scheduler says of itself.

        Args:
            age: Seconds since it said so.
            has_started: Whether it has just started: then its predecessor, the same worker of the same host,
                has ended, whether or not it said goodbye.
        """
        with self._lock:
            self._forget_silent()
            if has_started and member.host:
                self._known = {
                    sender: (other, heard)
                    for sender, (other, heard) in self._known.items()
                    if sender == member.sender or (other.host, other.worker) != (member.host, member.worker)
                }
            if member.sender == self.own.sender:
                self.own = member
            elif member.sender in self._known or len(self._known) < MOST_MEMBERS:
                self._note(member, age)

    def hear(self, sender: str, age: float = 0.0) -> None:
        """Note that a scheduler was alive ``age`` seconds ago; one that never described itself is ignored."""
        with self._lock:
            if sender in self._known:
                self._note(self._known[sender][0], age)

    def remove(self, sender: str) -> None:
        """Remove a scheduler that stops."""
        with self._lock:
            self._known.pop(sender, None)

    def _note(self, member: Member, age: float) -> None:
        _, heard = self._known.get(member.sender, (member, -math.inf))
        self._known[member.sender] = member, max(heard, self._clock() - age)

    def _forget_silent(self) -> None:
        end = self._clock() - ALIVE_FOR
        self._known = {
            sender: (member, heard) for sender, (member, heard) in self._known.items() if heard > end
        }
