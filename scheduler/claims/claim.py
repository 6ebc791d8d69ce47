"""Claims: what is written for each instance, and what follows (spec: placement-and-workflow 4.3-4.6).

Most consumers are new, so their write says that there is none, and nothing is read before it. What an
evacuated instance holds is read first: it is kept on the hosts that the instance leaves, and written together
with the claim (KEEPING_SOURCE). Without an answer to that nothing is written::

    the instance holds                      the write is        what follows
    nothing, or only what it keeps          DONE                GRANTED
                                            CHANGED             GIVEN_UP; another run or request was first
                                            REFUSED, GONE       by a provider of what the instance keeps:
                                                                GIVEN_UP; other hosts would be refused too
                                                                else: NEXT_HOST
                                            CONTENDED           NEXT_HOST
                                            any other           GIVEN_UP
    allocations of another run or request   not sent            GIVEN_UP, as CHANGED

The states of single tries are the writer's (``placement.allocation_writer``).
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

from oslo_log import log

from scheduler.claims.doubts import NOTHING_KEPT, Kept
from scheduler.claims.result import ClaimResult, end_of
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.allocations import (
    COMPUTE,
    NOTHING,
    AllocationReader,
    ConsumerAllocations,
    Owner,
)
from scheduler.placement.answer import AllocationCandidate, Resources
from scheduler.placement.claim_events import ClaimHistory, ClaimState
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.outcomes import Outcome, Refuses
from scheduler.placement.writes import Write, Written
from scheduler.request.scheduling_request import SchedulingRequest

LOG = log.getLogger(f"nova.{__name__}")

Results = dict[str, ClaimResult]
"""Instance UUID -> result."""

ANOTHER = "the instance holds allocations of another request"
KEPT_IS_REFUSED = "what the instance keeps on this host is refused, so every other host would be too: "


def as_it_is(provider: str) -> str:
    """Return the UUID of a provider, for want of the name of its host."""
    return provider


@dataclass(frozen=True, slots=True)
class Claimant:
    """What is the same for all claims of a request.

    Attributes:
        owner: Whose quota they count against.
        context: The context of the request, for Placement's log.
        kept: Compute nodes whose allocations an instance keeps besides: the hosts that the request ignores.
        nodes: UUIDs of all compute nodes. What an evacuated instance holds on a node that it does not
            leave is from another request.
        host_name: Returns the name of the host of a compute node, by its UUID, for the log.
    """

    owner: Owner
    context: Any = None
    kept: Kept = NOTHING_KEPT
    nodes: Container[str] = ()
    host_name: Callable[[str], str] = as_it_is

    def host_of(self, allocations: Resources) -> str:
        """Return the host of what an instance holds besides what it keeps; "" if it is not known."""
        taken = [one for one in allocations if one in self.nodes and one not in self.kept.providers]
        return self.host_name(taken[0]) if taken else ""


def owner_of(request: SchedulingRequest) -> Owner:
    """Return whose the claims of a request are. Without a user in its spec, that of its context counts."""
    return Owner(request.spec.project_id, request.spec.user_id or request.context.user_id)


def claim_all(
    candidates: Mapping[str, AllocationCandidate],
    claimant: Claimant,
    writer: AllocationWriter,
    refusal: Refuses,
    until: float,
    on_event: Callable[[], None] = lambda: None,
) -> Results:
    """Write a claim for each instance, in one POST; return the result of each.

    Never raises for a failure of Placement.

    Args:
        candidates: What each instance shall hold, by its UUID.
        refusal: Returns why nothing more may be sent; None while it may.
        on_event: Called at each event of a claim; must not wait.
    """
    histories = {
        uuid: ClaimHistory(uuid, claimant.host_name(one.root), on_event=on_event)
        for uuid, one in candidates.items()
    }

    def result(uuid: str, written: Written, source: ConsumerAllocations = NOTHING) -> ClaimResult:
        return result_of(written, source, histories[uuid], claimant.host_name)

    if why := refusal():
        refused = Written(why.outcome, cause=why.reason, reason=why.reason)
        return {uuid: result(uuid, refused) for uuid in candidates}
    results: Results = {}
    sources: dict[str, ConsumerAllocations] = {}
    for uuid in candidates:
        try:
            sources[uuid] = _source_of(uuid, claimant, writer.reader)
        except PlacementSilent as error:
            results[uuid] = result(uuid, Written(Outcome.UNSENT, cause=str(error), reason=str(error)))
        except _Another as error:
            results[uuid] = result(uuid, Written(Outcome.CHANGED, error.held))
    writes = {
        uuid: _write_of(source, candidates[uuid], claimant.owner, histories[uuid])
        for uuid, source in sources.items()
    }
    if not writes:
        return results
    written = writer.write(writes, until=until, refusal=refusal, context=claimant.context)
    return results | {uuid: result(uuid, one, sources[uuid]) for uuid, one in written.items()}


class _Another(Exception):
    """The instance holds something from another run or request."""

    def __init__(self, held: ConsumerAllocations) -> None:
        self.held = held


def _source_of(uuid: str, claimant: Claimant, reader: AllocationReader) -> ConsumerAllocations:
    """Return what an instance holds on hosts that it leaves, and what these share; NOTHING for most.

    Raises:
        PlacementSilent: It is not known.
        _Another: It holds something else.
    """
    leaves = claimant.kept.providers
    held = reader.read(uuid, claimant.context) if leaves else NOTHING
    beside = {provider for provider in held.allocations if provider not in leaves}
    if any(provider in claimant.nodes for provider in beside):
        raise _Another(held)
    beside = {one for one in beside if reader.root_of(one, claimant.context) not in leaves}
    # These share something with hosts, or are hosts of another partition.
    if any(COMPUTE & held.allocations[provider]["resources"].keys() for provider in beside):
        raise _Another(held)
    if beside and len(beside) == len(held.allocations):
        raise _Another(held)
    return held


def _write_of(
    source: ConsumerAllocations, candidate: AllocationCandidate, owner: Owner, history: ClaimHistory
) -> Write:
    """Return what is to be written.

    A provider in both keeps its old amounts: source and destination share it.
    """
    write = replace(Write.of(candidate, owner), history=history)
    if not source.allocations:
        return write
    history.add(ClaimState.KEEPING_SOURCE, "the instance holds allocations of an evacuated host")
    allocations = {**candidate.allocations, **source.allocations}
    return Write(allocations, owner, source.generation, history=history)


def result_of(
    written: Written, source: ConsumerAllocations, history: ClaimHistory, host_name: Callable[[str], str]
) -> ClaimResult:
    """Return how a claim ended, and note that in its history."""
    outcome = written.outcome
    changed, done = outcome is Outcome.CHANGED, outcome is Outcome.DONE
    final = outcome in {Outcome.REFUSED, Outcome.GONE} and written.provider in source.allocations
    if outcome is Outcome.CONTENDED:
        LOG.error("Failed scheduler client operation claim_resources: out of retries: %s", written.cause)
    if final:
        host = host_name(written.provider)
        history.add(ClaimState.GIVEN_UP, KEPT_IS_REFUSED + written.cause, written.status, host)
    else:
        cause = "; ".join(filter(None, [written.cause, ANOTHER])) if changed else written.cause
        history.add(end_of(outcome), cause, written.status)
    return ClaimResult(
        outcome,
        "" if done else ANOTHER if changed else written.reason,
        final=final,
        refused_class=written.resource_class,
        refused_provider=written.provider,
        made=written.held if done else None,
        previous=source if source.allocations else None,
        lost=written.lost > 0,
        held=written.held if changed else None,
        events=tuple(history.events),
    )
