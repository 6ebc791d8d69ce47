"""Answers to questions about the decisions of a scheduler."""

from collections.abc import Callable
from itertools import islice
from typing import Any

import msgspec

from scheduler.decisions.document import decode, decode_entry, seconds_of
from scheduler.decisions.host_history import history_of
from scheduler.decisions.memory import DecisionMemory
from scheduler.decisions.open_requests import OpenRequest

#: Maximum length of a list of decisions.
MOST_ENTRIES = 10_000


class Explainer:
    """Answers questions about the decisions of one scheduler. Any thread may use it."""

    def __init__(
        self,
        memory: DecisionMemory,
        waiting: Callable[[], list[OpenRequest]],
        complete: Callable[[str], None] = lambda _name: None,
    ) -> None:
        """Set up.

        Args:
            complete: Completes the explanation of a decision.
        """
        self._complete = complete
        self._memory = memory
        self._waiting = waiting

    def decision(self, name: str) -> str | None:
        """Return the document of the latest decision on a request id or an instance; None if unknown."""
        self._complete(name)
        found = self._memory.find(name)
        return None if found is None else found.decode()

    def decisions(
        self, *, failed: bool = False, since: float = 0.0, project: str | None = None, at_most: int = 100
    ) -> list[dict[str, Any]]:
        """Return an entry for each of the latest decisions, the latest first."""
        kept = map(decode_entry, self._memory.latest_first())
        wanted = (one for one in kept if one.is_wanted(failed=failed, since=since, project=project))
        return [one.values() for one in islice(wanted, at_most)]

    def waiting(self) -> list[dict[str, Any]]:
        """Return the requests in progress; see ``open_requests``. It waits for nothing itself."""
        return msgspec.to_builtins(self._waiting())

    def host_history(self, host: str, since: float = 0.0) -> dict[str, Any]:
        """Return the outcomes of a host in the decisions since a time; see ``host_history.history_of``."""
        decisions = map(decode, self._memory.latest_first())
        return msgspec.to_builtins(
            history_of((one for one in decisions if seconds_of(one.time) >= since), host), str_keys=True
        )
