"""Which schedulers are alive.

Every scheduler says so in the decision stream every few seconds. Each of them draws its own conclusions; they
may differ for some seconds, which costs quality of decisions and never their correctness.
"""

from collections.abc import Callable
from hashlib import blake2b
import math
import re
import threading
import time

import msgspec

from scheduler.stream.records import Member

ALIVE_FOR = 15.0
"""Seconds after the last record of a scheduler in which it counts as alive."""

MOST_MEMBERS = 64
"""Other schedulers that are known at once; further ones are left out. Each change of them costs a request the
time to find the owners of all hosts."""


class Membership:
    """The schedulers of a cloud that are alive, this one among them. Any thread may use it."""

    def __init__(self, own: Member, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with this scheduler alone."""
        self._own = own
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Member, float]] = {}
        self._alive: tuple[Member, ...] = (own,)
        self._check_at = math.inf

    @property
    def own(self) -> Member:
        """This scheduler, as the others know it."""
        return self._own

    def alive(self) -> tuple[Member, ...]:
        """Return the schedulers that are alive, this one among them, in the order of their senders.

        It is the same tuple until one of them changes, comes or goes.
        """
        if self._clock() >= self._check_at:
            with self._lock:
                self._rebuild()
        return self._alive

    def update(self, member: Member, age: float = 0.0, *, has_started: bool = False) -> None:
        """Note what a scheduler says of itself.

        Anyone on the bus can write that. A queue that is none of a scheduler on that host is left out: calls
        that are sent to it would not come back.

        Args:
            age: Seconds since it said so.
            has_started: Whether it has just started: then its predecessor, the same worker of the same host,
                has ended, whether or not it said goodbye.
        """
        if not is_of_host(member.topic, member.host):
            member = msgspec.structs.replace(member, topic="")
        with self._lock:
            if has_started and member.host:
                self._known = {
                    sender: (each, heard)
                    for sender, (each, heard) in self._known.items()
                    if sender == member.sender or (each.host, each.worker) != (member.host, member.worker)
                }
            if member.sender == self._own.sender:
                self._own = member
            elif member.sender in self._known or len(self._known) < MOST_MEMBERS:
                self._known[member.sender] = member, max(self._heard_at(member.sender), self._clock() - age)
            self._rebuild()

    def hear(self, sender: str, age: float = 0.0) -> None:
        """Note that a scheduler was alive ``age`` seconds ago; one that never described itself is ignored."""
        with self._lock:
            if sender in self._known:
                member = self._known[sender][0]
                self._known[sender] = member, max(self._heard_at(sender), self._clock() - age)

    def remove(self, sender: str) -> None:
        """Remove a scheduler that stops."""
        with self._lock:
            if self._known.pop(sender, None):
                self._rebuild()

    def _heard_at(self, sender: str) -> float:
        return self._known[sender][1] if sender in self._known else -math.inf

    def _rebuild(self) -> None:
        """Leave out the schedulers that were not heard of for too long."""
        now = self._clock()
        self._known = {
            sender: (member, heard)
            for sender, (member, heard) in self._known.items()
            if now < heard + ALIVE_FOR
        }
        self._check_at = min((heard + ALIVE_FOR for _, heard in self._known.values()), default=math.inf)
        alive = [self._own, *(member for member, _ in self._known.values())]
        members = tuple(sorted(alive, key=lambda member: member.sender))
        if members != self._alive:
            self._alive = members


def is_of_host(topic: str, host: str) -> bool:
    """Return whether a topic is named as one of a scheduler on a host (``rpc.forwarding.new_topic``)."""
    return re.fullmatch(rf"berth\.{re.escape(host)}\.[0-9]+", topic) is not None


def hash64(text: str) -> int:
    """Return a number below 2**64 that is the same for a text in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
