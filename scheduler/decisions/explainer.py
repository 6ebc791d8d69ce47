"""Answers to questions about the decisions of a scheduler."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
import threading
from typing import Any

import msgspec

from scheduler import objects
from scheduler.decisions.document import decode, decode_entry, seconds_of
from scheduler.decisions.failure_cause import list_values
from scheduler.decisions.host_history import history_of
from scheduler.decisions.host_status import HostStatusReader
from scheduler.decisions.hosts_now import HostNow
from scheduler.decisions.memory import DecisionMemory
from scheduler.decisions.open_requests import OpenRequest
from scheduler.errors import BerthError

#: Seconds that a question about a host waits for the previous one.
BUSY_TIMEOUT = 5.0

#: Maximum length of a list of decisions.
MOST_ENTRIES = 10_000

#: Returns what is said of the nodes of a host as of now, for the request of some instances.
ExplainHost = Callable[[objects.RequestSpec, list[str], str], HostNow]


class Busy(BerthError):
    """Another question is still being answered."""


class Explainer:
    """Answers questions about the decisions of one scheduler. Any thread may use it."""

    def __init__(
        self,
        memory: DecisionMemory,
        host_now: ExplainHost,
        status: HostStatusReader,
        waiting: Callable[[], list[OpenRequest]],
        busy_timeout: float = BUSY_TIMEOUT,
        complete: Callable[[str], None] = lambda _name: None,
    ) -> None:
        """Set up.

        Args:
            complete: Completes the explanation of a decision.
        """
        self._complete = complete
        self._memory = memory
        self._host_now = host_now
        self._status = status
        self._waiting = waiting
        self._busy_timeout = busy_timeout
        self._lock = threading.Lock()

    def decision(self, name: str) -> str | None:
        """Return the document of the latest decision on a request id or an instance; None if unknown."""
        self._complete(name)
        found = self._memory.find(name)
        return None if found is None else found.decode()

    def decisions(
        self, *, failed: bool = False, since: float = 0.0, project: str | None = None, at_most: int = 100
    ) -> list[dict[str, Any]]:
        """Return an entry for each of the latest decisions, the latest first."""
        kept = ((decode_entry(encoded), encoded) for encoded in self._memory.latest_first())
        wanted = (one for one in kept if one[0].is_wanted(failed=failed, since=since, project=project))
        return [list_values(*one) for one in islice(wanted, min(at_most, MOST_ENTRIES))]

    def waiting(self) -> list[dict[str, Any]]:
        """Return the requests in progress; see ``open_requests``. It waits for nothing itself."""
        return msgspec.to_builtins(self._waiting())

    def host_history(self, name: str, since: float) -> dict[str, Any]:
        """Return the outcomes of a host in the decisions since a time; see ``host_history.history_of``."""
        decisions = map(decode, self._memory.latest_first())
        return msgspec.to_builtins(
            history_of((one for one in decisions if seconds_of(one.time) >= since), name), str_keys=True
        )

    def host_status(self, name: str) -> dict[str, Any]:
        """Return the status of a host as of now; see ``HostStatusReader.status``.

        Raises:
            Busy: Another question is being answered.
        """
        with self._alone():
            return msgspec.to_builtins(self._status.status(name))

    def host_now(self, spec: objects.RequestSpec, instances: list[str], name: str) -> dict[str, Any]:
        """Return the results of Placement and the filters on a host as of now; see ``workflow.host_now``.

        Raises:
            Busy: Another question is being answered.
            InvalidRequest: The request cannot be read.
            PlacementUnavailable: Placement gives no usable answer.
        """
        with self._alone():
            return msgspec.to_builtins(self._host_now(spec, instances, name))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=self._busy_timeout):
            raise Busy("Another question is being answered; try again later")
        try:
            yield
        finally:
            self._lock.release()
