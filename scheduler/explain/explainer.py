"""Answers to questions about the decisions of a worker, beside its work."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
import threading
import time
from typing import Any, Protocol

import msgspec

from scheduler import objects
from scheduler.errors import BerthError
from scheduler.explain.capacity import Offer, capacity
from scheduler.explain.document import Decision, decode_entry, encode
from scheduler.explain.hosts_now import HostsNow
from scheduler.explain.memory import DecisionMemory
from scheduler.explain.trace import Names

#: Seconds that a question about a request waits for the one before it.
BUSY_TIMEOUT = 5.0

#: The longest pause in seconds between two pieces of an answer.
LONGEST_PAUSE = 0.01

#: Entries of a list of decisions.
MOST_ENTRIES = 10_000


class Busy(BerthError):
    """Another question is being answered, and takes long."""


class Routed(Protocol):
    """What one scheduler would do with a request; as ``dry_run.Routed``."""

    @property
    def decision(self) -> Decision | None:
        """What it would decide; None if it would send the request on at once."""

    @property
    def partition(self) -> str:
        """Where it would send it then; "" if it would answer it."""

    @property
    def tried(self) -> Sequence[str]:
        """What is noted on the request there."""

    @property
    def hosts(self) -> Sequence[str]:
        """The hosts of the schedulers there."""


class DryRuns(Protocol):
    """Decides requests without effects."""

    def decide(self, context: Any, spec: objects.RequestSpec) -> Decision:
        """Return what would be decided now."""

    def route(self, context: Any, spec: objects.RequestSpec, tried: Sequence[str]) -> Routed:
        """Return the same, or to which partition the request would be sent."""

    def partitions(self) -> dict[str, list[str]]:
        """Return the hosts of the schedulers of each partition."""

    def offer(self, context: Any, spec: objects.RequestSpec) -> Offer:
        """Return the same as ``decide``, with what Placement has left on all hosts."""


class Pace:
    """Pauses for as long as the work before each pause took: requests get half of the time at least."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin to work now."""
        self._clock = clock
        self._sleep = sleep
        self._since = clock()

    def __call__(self) -> None:
        """Pause, and go on to work."""
        self._sleep(min(LONGEST_PAUSE, max(0.0, self._clock() - self._since)))
        self._since = self._clock()


class Explainer:
    """Answers questions about the decisions of one worker. Any thread may use it."""

    def __init__(
        self,
        memory: DecisionMemory,
        hosts_now: HostsNow,
        names: Callable[[], Names],
        dry_runs: DryRuns,
        busy_timeout: float = BUSY_TIMEOUT,
        pace: Callable[[], Callable[[], None]] = Pace,
    ) -> None:
        """Answer from the documents of a worker.

        Args:
            memory: The latest documents.
            hosts_now: Explains single hosts as of now.
            names: Returns the names of cells and of the default zone.
            dry_runs: Decides requests without effects.
            busy_timeout: Seconds that a question waits for the one before it.
            pace: Returns what is called between two pieces of an answer.
        """
        self._memory = memory
        self._hosts_now = hosts_now
        self._names = names
        self._dry_runs = dry_runs
        self._busy_timeout = busy_timeout
        self._pace = pace
        self._lock = threading.Lock()

    def decision(self, name: str) -> str | None:
        """Return the document of the latest decision on a request id or an instance; None if unknown."""
        found = self._memory.find(name)
        return None if found is None else found.decode()

    def decisions(
        self, *, failed: bool = False, since: float = 0.0, project: str | None = None, at_most: int = 100
    ) -> list[dict[str, Any]]:
        """Return one entry for each of the latest decisions, the latest first.

        Args:
            failed: Only those of requests that failed.
            since: Only those since this time, in seconds since the epoch.
            project: Only those for instances of this project.
            at_most: The number of entries.
        """
        entries = map(decode_entry, self._memory.latest_first())
        wanted = (one for one in entries if one.is_wanted(failed=failed, since=since, project=project))
        return [one.values() for one in islice(wanted, min(at_most, MOST_ENTRIES))]

    def host_now(self, spec: objects.RequestSpec, instances: list[str], name: str) -> dict[str, Any]:
        """Return what Placement and the filters say of a host as of now; see ``HostsNow.explain``.

        Raises:
            Busy: Another question is being answered.
            InvalidRequest: The request cannot be read.
            PlacementUnavailable: Placement gives no usable answer.
        """
        with self._alone():
            return msgspec.to_builtins(self._hosts_now.explain(spec, instances, name))

    def dry_run(self, context: Any, spec: objects.RequestSpec) -> str:
        """Return the document of what would be decided now.

        Raises:
            Busy: Another question is being answered.
            InvalidRequest: The request cannot be read.
        """
        with self._alone():
            return encode(self._dry_runs.decide(context, spec)).decode()

    def routed_dry_run(self, context: Any, spec: objects.RequestSpec, tried: Sequence[str]) -> dict[str, Any]:
        """Return the document of what would be decided now, or where the request would be sent.

        Args:
            context: The context of the question.
            spec: The request.
            tried: What is noted on the request of partitions in which it was tried.

        Returns:
            ``decision``, if it would be looked for a host here, and else None; ``sent_on``, if the request
            would be sent on then: to which partition, with what noted, and the hosts of its schedulers.

        Raises:
            Busy: Another question is being answered.
            InvalidRequest: The request cannot be read.
        """
        with self._alone():
            routed = self._dry_runs.route(context, spec, tried)
            decision = routed.decision and encode(routed.decision).decode()
        onward = {"partition": routed.partition, "tried": list(routed.tried), "hosts": list(routed.hosts)}
        return {"decision": decision, "sent_on": onward if routed.partition else None}

    def partitions(self) -> dict[str, list[str]]:
        """Return the hosts of the schedulers of each partition; none if there is none."""
        return self._dry_runs.partitions()

    def capacity(self, context: Any, spec: objects.RequestSpec) -> dict[str, Any]:
        """Return how many more instances of a request fit.

        Raises:
            Busy: Another question is being answered.
            InvalidRequest: The request cannot be read.
        """
        with self._alone():
            return capacity(self._dry_runs.offer(context, spec), self._names(), self._pace())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=self._busy_timeout):
            raise Busy("Another question is being answered; ask again later")
        try:
            yield
        finally:
            self._lock.release()
