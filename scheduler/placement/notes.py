"""What is noted of claims until their request is answered; see ``journal`` for where."""

from collections.abc import Callable, Collection

from oslo_log import log

from scheduler.placement.consumers import Held, Owner
from scheduler.placement.journal import Journal, Page
from scheduler.placement.outcome import ClaimResult, Outcome

LOG = log.getLogger(__name__)


class Notes:
    """The notes of this process; without a journal there are none."""

    def __init__(self) -> None:
        self._page: Page | None = None

    def open(self, journal: Journal, found: Callable[[str, ClaimResult], None]) -> None:
        """Note claims there from now on.

        ``found`` is called for each claim that a dead process noted: instance, and what it takes to undo it.
        The note stays until it is dropped.
        """
        self._page = journal.open()
        for uuid, note in self._page.left() if self._page else ():
            try:
                claim = _read(note)
            except (KeyError, TypeError, AttributeError):
                LOG.error("What a worker that died noted of instance %s is not understood: %s", uuid, note)
                self.drop([uuid])
            else:
                found(uuid, claim)

    def write(self, uuid: str, made: Held, previous: Held | None = None) -> None:
        """Note a claim that is about to be sent: what it gives the instance, and what that held before."""
        if self._page:
            self._page.note(uuid, {"made": _text(made), "previous": previous and _text(previous)})

    def drop(self, uuids: Collection[str]) -> None:
        """Nothing that was claimed for these instances is to be taken back any more."""
        if self._page:
            self._page.drop(uuids)


def _text(held: Held) -> dict:
    owner = [held.owner.project_id, held.owner.user_id]
    return {"allocations": held.allocations, "generation": held.generation, "owner": owner}


def _held(text: dict) -> Held:
    return Held(text["allocations"], text["generation"], Owner(*text["owner"]))


def _read(note: dict) -> ClaimResult:
    previous = note["previous"] and _held(note["previous"])
    return ClaimResult(Outcome.CLAIMED, made=_held(note["made"]), previous=previous, unsure=True)
