"""Take back what a claim of ours gave an instance (spec: placement-and-workflow 4.6, 4.8)."""

from dataclasses import dataclass, field, replace
import time

from oslo_log import log

from scheduler.placement.consumers import NOTHING, Consumers, Held, emptied, plain, restored
from scheduler.placement.errors import PlacementUnreachable
from scheduler.placement.verdict import Verdict, judge

LOG = log.getLogger(__name__)

_TELLS_NOTHING = {Verdict.UNKNOWN, Verdict.CONCURRENT, Verdict.DENIED}


@dataclass(slots=True)
class Leftover:
    """An instance that may hold something of ours.

    :ivar ours: what our writes gave it, or may yet give it. Whatever else it holds is somebody else's, and
        left alone.
    :ivar previous: what it held before, and shall hold again; None for nothing.
    :ivar late: until then (monotonic) a lost write may still be carried out.
    :ivar overlapped: two writes ran at once, so that rows may exist which Placement does not show.
    :ivar certain: it holds exactly ours, as nothing came between the claim and now.
    """

    uuid: str
    ours: tuple[Held, ...]
    previous: Held | None = None
    late: float = 0.0
    overlapped: bool = False
    certain: bool = False
    context: object = None
    since: float = field(default_factory=time.monotonic)
    due: float = 0.0
    attempts: int = 0

    def joined(self, other: "Leftover") -> "Leftover":
        """With a later claim for the same instance. What it held before the first one is what counts."""
        return replace(
            other,
            ours=self.ours + other.ours,
            previous=self.previous or other.previous,
            late=max(self.late, other.late),
            overlapped=self.overlapped or other.overlapped,
            certain=False,
            since=self.since,
        )


def undo(api: Consumers, leftover: Leftover) -> bool:
    """One attempt; True if nothing is left to do. The caller keeps other writers of this process away.

    :raises PlacementSilent: no answer, or not the one that is wanted.
    """
    if leftover.certain and not leftover.attempts:
        delete(api, leftover.uuid, leftover.context)
        return True
    held = api.read(leftover.uuid, leftover.context)
    if any(held.allocations == ours.allocations for ours in leftover.ours):
        _take_back(api, leftover, held)
        LOG.info("Deleted allocations for instance %s", leftover.uuid)
        held = leftover.previous or NOTHING
    if time.monotonic() < leftover.late:
        return False
    if leftover.overlapped and not held.allocations:
        _uncover(api, leftover)
    return True


def _take_back(api: Consumers, leftover: Leftover, held: Held) -> None:
    # Not DELETE: the generation makes sure that nobody has changed the consumer since it was read.
    if leftover.previous:
        body = restored(leftover.previous, held.generation)
    else:
        body = emptied(held)
    reply = api.put(leftover.uuid, body, leftover.context)
    if judge(reply) is not Verdict.DONE:
        raise PlacementUnreachable(reply.summary)


def _uncover(api: Consumers, leftover: Leftover) -> None:
    """Rows that Placement does not show are replaced, and so shown again, by one more write; then deleted."""
    made = leftover.ours[-1]
    body = plain(made.allocations, made.owner, None)
    reply = api.put(leftover.uuid, body, leftover.context)
    verdict = judge(reply)
    if verdict is Verdict.DONE:
        delete(api, leftover.uuid, leftover.context)
    elif verdict in _TELLS_NOTHING:
        raise PlacementUnreachable(reply.summary)


def delete(api: Consumers, uuid: str, context) -> None:
    """Drop all that an instance holds; it may hold nothing.

    :raises PlacementSilent: no answer, or not the one that is wanted.
    """
    reply = api.delete(uuid, context)
    if reply.status == 204:
        LOG.info("Deleted allocations for instance %s", uuid)
    elif reply.status != 404:
        raise PlacementUnreachable(reply.summary)
