"""What the log says of a request's hosts, in nova's words: once for a request, and as nova means it.

A request may take several passes: over the hosts of the mirror, over Placement's answer, without a limit,
and with cells that could be read again. A pass that another one follows is not logged: operators count these
lines, and take them as proof that Placement offered hosts and the named filter rejected them.
"""

from oslo_log import log as logging

from scheduler.filters.chain import Filtered
from scheduler.selection.narrowing import Narrowed

LOG = logging.getLogger(f"nova.{__name__}")


class PassLog:
    """The last pass of one request."""

    def __init__(self) -> None:
        self._narrowed: Narrowed | None = None
        self._filtered: tuple[str, Filtered] | None = None

    def begin(self, narrowed: Narrowed | None = None) -> None:
        """Forget the last pass, and begin one; None: its hosts are still to be found."""
        self._narrowed, self._filtered = narrowed, None

    def filtered(self, instance_uuid: str, filtered: Filtered) -> None:
        self._filtered = instance_uuid, filtered

    def write(self) -> None:
        """Log the last pass, and forget it: it refers to all of its hosts."""
        narrowed, last = self._narrowed, self._filtered
        self.begin()
        if narrowed is not None:
            narrowed.log()
        if last is None:
            return
        instance_uuid, filtered = last
        filtered.log_empty(instance_uuid)
        if not len(filtered.hosts):
            for line in filtered.summary():
                LOG.info("No host for instance %s: %s", instance_uuid, line)
