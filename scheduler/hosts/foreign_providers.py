"""Providers that Placement offers and that are no compute nodes."""

from collections.abc import Collection
import time

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

# How long such a provider is not looked for again, in seconds.
FOREIGN = 30.0
MAX_FOREIGN = 100_000


class ForeignProviders:
    """Their uuids, remembered for a while: one may be a compute node that is yet to be made."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def __contains__(self, uuid: str) -> bool:
        return self._until.get(uuid, 0.0) > time.monotonic()

    def mention(self, uuids: Collection[str]) -> None:
        """Log those that were not there before."""
        new = [uuid for uuid in uuids if uuid not in self._until]
        if new:
            LOG.info("Placement offers %d providers that are no hosts, such as %s", len(new), new[0])

    def remember(self, uuids: Collection[str]) -> None:
        if len(self._until) > MAX_FOREIGN:
            self._until = {}
        self._until |= dict.fromkeys(uuids, time.monotonic() + FOREIGN)

    def forget(self) -> None:
        self._until = {}
