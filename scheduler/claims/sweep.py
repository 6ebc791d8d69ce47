"""Releasing the allocations of builds that nova has given up, also those that other processes wrote.

Doubts end with their process, and a nova-scheduler, a conductor with an alternate or a message that was lost
leave none. But a build whose caller had an error, or timed out, is in cell0: what it holds is of no use.
"""

from collections.abc import Callable, Collection, Sequence

from oslo_log import log as logging

from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.outcomes import Outcome
from scheduler.placement.write_policy import LATE_WRITE_WINDOW
from scheduler.placement.writes import Write
from scheduler.request.instance_state import InstanceState, ReadStates

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between two rounds. A build is looked at in the round after the one in which it was found: no late
#: write is expected any more.
INTERVAL = 2 * LATE_WRITE_WINDOW

#: Builds that are looked at in a round.
MOST = 100

#: Seconds for the releases of a round.
TRY = 5.0


class Sweep:
    """Looks at each build that was given up, and again until it holds nothing. One thread uses it."""

    def __init__(
        self,
        writer: AllocationWriter,
        states_of: ReadStates,
        read_new: Callable[[], Collection[str] | None],
    ) -> None:
        """Begin without builds.

        Args:
            states_of: Returns what nova says of instances.
            read_new: Returns the builds that were given up since its last call; None: another scheduler looks
                at them.
        """
        self._writer = writer
        self._states_of = states_of
        self._read_new = read_new
        self._waiting: list[str] = []

    def run(self) -> None:
        """Do a round. Never raises for a failure of Placement."""
        found = self._read_new()
        if found is None:
            self._waiting = []
            return
        due, later = self._waiting[:MOST], self._waiting[MOST:]
        self._waiting = [*later, *found, *self._unsettled(due)]

    def _unsettled(self, uuids: Sequence[str]) -> Collection[str]:
        """Release what builds hold; return those that have to be looked at again."""
        try:
            held = self._writer.reader.read_many(uuids)
        except PlacementSilent as error:
            LOG.debug("Cannot read what given-up builds hold: %s", error)
            return uuids
        holders = [uuid for uuid, one in held.items() if one.allocations]
        # After the reading: what nova says then holds for what was read. cell0 may be the database of a cell.
        states = self._states_of(holders, ()) if holders else {}
        releases = {
            uuid: Write({}, held[uuid].owner, held[uuid].generation)
            for uuid in holders
            if states[uuid] is InstanceState.GIVEN_UP
        }
        written = (
            self._writer.write(releases, until=self._writer.timing.monotonic() + TRY) if releases else {}
        )
        done = {uuid for uuid, one in written.items() if one.outcome is Outcome.DONE}
        if done:
            LOG.info(
                "Released the allocations of given-up builds (%d): %s", len(done), ", ".join(sorted(done))
            )
        unknown = {uuid for uuid in holders if states[uuid] is InstanceState.UNKNOWN}
        return (releases.keys() | unknown) - done
