"""Answers to questions about the decisions of a worker, given while it serves requests."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
import threading
from typing import Any

import msgspec

from scheduler import objects
from scheduler.errors import BerthError
from scheduler.explain.document import decode, decode_entry, seconds_of
from scheduler.explain.failure_cause import list_values
from scheduler.explain.host_history import history_of
from scheduler.explain.host_status import HostStatusReader
from scheduler.explain.hosts_now import HostsNow
from scheduler.explain.memory import DecisionMemory

#: Seconds that a question about a host waits for the one before it.
BUSY_TIMEOUT = 5.0

#: Entries of a list of decisions.
MOST_ENTRIES = 10_000


class Busy(BerthError):
    """Another question is being answered, and takes long."""


class Explainer:
    """Answers questions about the decisions of one worker. Any thread may use it."""

    def __init__(
        self,
        memory: DecisionMemory,
        hosts_now: HostsNow,
        states: HostStatusReader,
        busy_timeout: float = BUSY_TIMEOUT,
    ) -> None:
        """Answer from the documents of a worker.

        Args:
            memory: The latest documents.
            busy_timeout: Seconds that a question about a host waits for the one before it.
        """
        self._memory = memory
        self._hosts_now = hosts_now
        self._states = states
        self._busy_timeout = busy_timeout
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
            since: Only those since this time, in seconds since the epoch.
        """
        kept = ((decode_entry(encoded), encoded) for encoded in self._memory.latest_first())
        wanted = (one for one in kept if one[0].is_wanted(failed=failed, since=since, project=project))
        return [list_values(*one) for one in islice(wanted, min(at_most, MOST_ENTRIES))]

    def host_history(self, name: str, since: float) -> dict[str, Any]:
        """Return what became of a host in the decisions since a time; see ``host_history.history_of``."""
        decisions = map(decode, self._memory.latest_first())
        return msgspec.to_builtins(
            history_of((one for one in decisions if seconds_of(one.time) >= since), name), str_keys=True
        )

    def host_status(self, name: str) -> dict[str, Any]:
        """Return the state of a host as of now; see ``HostStatusReader.state``.

        Raises:
            Busy: Another question is being answered.
        """
        with self._alone():
            return msgspec.to_builtins(self._states.state(name))

    def host_now(self, spec: objects.RequestSpec, instances: list[str], name: str) -> dict[str, Any]:
        """Return what Placement and the filters say of a host as of now; see ``HostsNow.explain``.

        Raises:
            Busy: Another question is being answered.
            InvalidRequest: The request cannot be read.
            PlacementUnavailable: Placement gives no usable answer.
        """
        with self._alone():
            return msgspec.to_builtins(self._hosts_now.explain(spec, instances, name))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=self._busy_timeout):
            raise Busy("Another question is being answered; ask again later")
        try:
            yield
        finally:
            self._lock.release()
