"""Which scheduler decides for a flavor: requests that can share a query of Placement come to one scheduler.

Each scheduler asks Placement for its own requests. In a large cloud such a query takes Placement longer than
all the rest of a request, and those that wait for it in one scheduler share it. So each flavor has an owner
among the schedulers that are alive, and the others send its calls on to the owner, which then answers them
by one query, after one reading of the hosts, and claims for them in one write.

A bad day of an owner is not to become one for all:

- A call is sent on for its flavor once. If it comes back, the scheduler that has it decides, and
  sends nothing to that owner for a while.
- An owner that cannot tell whether there is a host hands the call back, instead of refusing it.
- An owner is sent no more calls than it can decide. The others are decided where they are: when there are
  so many, each scheduler shares its own queries among enough requests.
"""

from collections.abc import Callable
import threading
import time
from typing import NamedTuple, Protocol

import cachetools

from scheduler.stream import group_owners
from scheduler.stream.membership import LATELY, MOST_MEMBERS, Membership

REASON = "flavor"

AVOIDED_FOR = 30.0
"""Seconds for which an owner that a call came back from is sent none."""

CALLS_A_SECOND, CALLS_AT_ONCE = 8.0, 16.0
"""What an owner is sent by all others together, in the long run and at once.

So many requests share a list well. If more meet in one scheduler while Placement is slow, their claims wait
too long for each other's writes.
"""


class Call(group_owners.Call, Protocol):
    """The same of a call whose deliveries count."""

    redelivered: bool


class _Sent(NamedTuple):
    """What an owner was sent, as it is forgotten with time.

    Attributes:
        calls: The calls that still count.
        at: When they did.
    """

    calls: float
    at: float


class FlavorOwners:
    """Sends calls on to the owners of their flavors. Any thread may use it."""

    def __init__(
        self,
        membership: Membership,
        enabled: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Share flavors between the schedulers of a partition.

        Args:
            membership: The schedulers.
            enabled: Whether calls are sent on at all.
            clock: Seconds that only grow.
        """
        self._membership = membership
        self._enabled = enabled
        self._clock = clock
        self._lock = threading.Lock()
        self._sent: cachetools.LRUCache[str, _Sent] = cachetools.LRUCache(MOST_MEMBERS)
        self._avoided: cachetools.TTLCache[str, bool] = cachetools.TTLCache(MOST_MEMBERS, AVOIDED_FOR, clock)

    def send_on(self, flavor: str, call: Call) -> None:
        """Send a call on to the scheduler that decides for its flavor, if that is another one.

        Returns if the call is to be decided here.

        Args:
            flavor: What the queries of its requests depend on.
            call: The call.

        Raises:
            Forwarded: It was sent on (``scheduler/rpc/delivery.py``).
        """
        before = self._entry_of(call)
        if before:
            if not self.was_sent_here(call):
                with self._lock:
                    self._avoided[before] = True
            return
        if call.redelivered or not self._enabled():
            return
        owner = self._membership.owner_of(flavor)
        entry = self._entry(owner.topic)
        if owner.sender == self._membership.own.sender or not owner.topic:
            return
        if owner in self._membership.heard_within(LATELY) and self._may_send(owner.topic, entry):
            call.forward(owner.topic, REASON, (*call.tried, entry))

    def was_sent_here(self, call: Call) -> bool:
        """Return whether a call came straight from the scheduler that sent it on for its flavor."""
        return self._entry_of(call) == self._entry(self._membership.own.topic) and not call.redelivered

    @property
    def _prefix(self) -> str:
        return f"{REASON}:{self._membership.own.partition} "

    def _entry(self, topic: str) -> str:
        return self._prefix + topic

    def _entry_of(self, call: Call) -> str:
        return next((entry for entry in call.tried if entry.startswith(self._prefix)), "")

    def _may_send(self, topic: str, entry: str) -> bool:
        """Count a call that is sent to a topic, unless that has had its share from here."""
        others = max(1, len(self._membership.peers()) - 1)
        now = self._clock()
        with self._lock:
            if entry in self._avoided:
                return False
            before = self._sent.get(topic, _Sent(0.0, now))
            calls = max(0.0, before.calls - (now - before.at) * CALLS_A_SECOND / others)
            if calls and calls + 1 > CALLS_AT_ONCE / others:
                return False
            self._sent[topic] = _Sent(calls + 1, now)
            return True
