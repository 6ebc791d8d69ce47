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

from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import dataclass, replace
from typing import Any

from oslo_log import log

from scheduler.claims.result import ClaimResult, end_of
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.allocations import (
    COMPUTE,
    NOTHING,
    AllocationReader,
    ConsumerAllocations,
    Owner,
)
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.claim_events import ClaimHistory, ClaimState
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.outcomes import Outcome, Refuses
from scheduler.placement.writes import Write, Written

LOG = log.getLogger(f"nova.{__name__}")

Results = dict[str, ClaimResult]
"""Instance UUID -> result."""

ANOTHER = "the instance holds allocations of another request"
KEPT_IS_REFUSED = "what the instance keeps on this host is refused, so every other host would be too: "


def as_it_is(provider: str) -> str:
    """Return the UUID of a provider, for want of the name of its host."""
    return provider


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What is to be claimed.

    Attributes:
        uuid: The instance.
        candidate: What it shall hold.
        owner: Whose quota it counts against.
        context: The context of the request, for Placement's log.
        evacuating_from: UUIDs of compute nodes whose allocations the instance keeps besides.
        host: The name of the candidate's host; "" if it is not known.
        nodes: UUIDs of all compute nodes. What an evacuated instance holds on a node that it does not
            leave is from another request.
        host_name: Returns the name of the host of a compute node, by its UUID.
    """

    uuid: str
    candidate: AllocationCandidate
    owner: Owner
    context: Any = None
    evacuating_from: Collection[str] = ()
    host: str = ""
    nodes: Container[str] = ()
    host_name: Callable[[str], str] = as_it_is

    @property
    def host_label(self) -> str:
        """The host for log lines: its name if known, otherwise the UUID of the root provider."""
        return self.host or self.candidate.root


def claim_all(
    requests: Iterable[ClaimRequest],
    writer: AllocationWriter,
    refusal: Refuses,
    until: float,
    on_event: Callable[[], None] = lambda: None,
) -> Results:
    """Write claims for different instances, in one POST; return the result of each.

    Never raises for a failure of Placement.

    Args:
        refusal: Returns why nothing more may be sent; None while it may.
        on_event: Called at each event of a claim; must not wait.
    """
    claims = {one.uuid: (one, ClaimHistory(one.uuid, one.host_label, on_event=on_event)) for one in requests}
    if why := refusal():
        refused = Written(why.outcome, cause=why.reason, reason=why.reason)
        return {uuid: _result(refused, NOTHING, *claim) for uuid, claim in claims.items()}
    results: Results = {}
    sources: dict[str, ConsumerAllocations] = {}
    for uuid, (request, history) in claims.items():
        try:
            sources[uuid] = _source_of(request, writer.reader)
        except PlacementSilent as error:
            unread = Written(Outcome.UNSENT, cause=str(error), reason=str(error))
            results[uuid] = _result(unread, NOTHING, request, history)
        except _Another as error:
            results[uuid] = _result(Written(Outcome.CHANGED, error.held), NOTHING, request, history)
    writes = {uuid: _write_of(source, *claims[uuid]) for uuid, source in sources.items()}
    context = next(request.context for request, _history in claims.values())
    written = writer.write(writes, until=until, refusal=refusal, context=context) if writes else {}
    return results | {uuid: _result(one, sources[uuid], *claims[uuid]) for uuid, one in written.items()}


class _Another(Exception):
    """The instance holds something from another run or request."""

    def __init__(self, held: ConsumerAllocations) -> None:
        self.held = held


def _source_of(request: ClaimRequest, reader: AllocationReader) -> ConsumerAllocations:
    """Return what an instance holds on hosts that it leaves, and what these share; NOTHING for most.

    Raises:
        PlacementSilent: It is not known.
        _Another: It holds something else.
    """
    leaves = request.evacuating_from
    held = reader.read(request.uuid, request.context) if leaves else NOTHING
    beside = {provider for provider in held.allocations if provider not in leaves}
    if any(provider in request.nodes for provider in beside):
        raise _Another(held)
    beside = {one for one in beside if reader.root_of(one, request.context) not in leaves}
    # These share something with hosts, or are hosts of another partition.
    if any(COMPUTE & held.allocations[provider]["resources"].keys() for provider in beside):
        raise _Another(held)
    if beside and len(beside) == len(held.allocations):
        raise _Another(held)
    return held


def _write_of(source: ConsumerAllocations, request: ClaimRequest, history: ClaimHistory) -> Write:
    """Return what is to be written.

    A provider in both keeps its old amounts: source and destination share it.
    """
    write = replace(Write.of(request.candidate, request.owner), history=history)
    if not source.allocations:
        return write
    history.add(ClaimState.KEEPING_SOURCE, "the instance holds allocations of an evacuated host")
    allocations = {**request.candidate.allocations, **source.allocations}
    return Write(allocations, request.owner, source.generation, history=history)


def _result(
    written: Written, source: ConsumerAllocations, request: ClaimRequest, history: ClaimHistory
) -> ClaimResult:
    """Return how a claim ended, and note that in its history."""
    outcome = written.outcome
    changed, done = outcome is Outcome.CHANGED, outcome is Outcome.DONE
    final = outcome in {Outcome.REFUSED, Outcome.GONE} and written.provider in source.allocations
    if outcome is Outcome.CONTENDED:
        LOG.error("Failed scheduler client operation claim_resources: out of retries: %s", written.cause)
    if final:
        host = request.host_name(written.provider)
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
