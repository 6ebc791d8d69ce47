"""Claims: which write follows what became of the last one (spec: placement-and-workflow 4.3-4.6).

Most consumers are new, so the first write says that there is none, and nothing is read before it. What an
evacuated instance holds is read first: on the hosts that it leaves it is kept (KEEPING_SOURCE)::

    the write is    what follows
    DONE            GRANTED
    CHANGED         the instance holds
                        allocations of evacuated hosts only: KEEPING_SOURCE
                        others: GIVEN_UP; another run of the request, or another request, was first
    REFUSED, GONE   by a provider of what the instance keeps: GIVEN_UP; each other host would be refused too
                    else: NEXT_HOST
    CONTENDED       NEXT_HOST
    any other       GIVEN_UP

The states of single tries are the writer's (``placement.allocation_writer``).
"""

from collections.abc import Callable, Collection, Container, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from oslo_log import log

from scheduler.claims.result import ClaimResult, end_of
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.allocations import COMPUTE, AllocationReader, ConsumerAllocations, Owner
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.claim_events import ClaimHistory, ClaimState
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.outcomes import Outcome, Refusal, Refuses
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


class Claim:
    """The claim for one instance on one host.

    Attributes:
        request: What is claimed.
        write: What is to be written next.
        result: How the claim ended; None before.
    """

    def __init__(
        self, request: ClaimRequest, reader: AllocationReader, on_event: Callable[[], None] = lambda: None
    ) -> None:
        """Begin a claim.

        Args:
            reader: Reads the roots of providers.
            on_event: Called at each event of the claim; must not wait.
        """
        self.request = request
        self._reader = reader
        self._history = ClaimHistory(request.uuid, request.host_label, on_event=on_event)
        self._source: ConsumerAllocations | None = None
        self._lost = False
        self.write = replace(Write.of(request.candidate, request.owner), history=self._history)
        self.result: ClaimResult | None = None

    def begin(self, held: ConsumerAllocations) -> None:
        """Keep what an evacuated instance was found to hold on the hosts that it leaves."""
        if self._is_source(held):
            self._keep_source(held)

    def take(self, written: Written) -> None:
        """Go on, or end, after what became of the write."""
        self._lost = self._lost or written.lost > 0
        outcome = written.outcome
        if outcome is Outcome.CHANGED and self._source is None and self._is_source(written.held):
            self._keep_source(written.held)
            return
        if outcome is Outcome.CONTENDED:
            LOG.error("Failed scheduler client operation claim_resources: out of retries: %s", written.cause)
        changed, done = outcome is Outcome.CHANGED, outcome is Outcome.DONE
        final = self._refuses_source(written)
        if final:
            host = self.request.host_name(written.provider)
            self._history.add(ClaimState.GIVEN_UP, KEPT_IS_REFUSED + written.cause, written.status, host)
        else:
            cause = f"{written.cause}; {ANOTHER}" if changed else written.cause
            self._history.add(end_of(outcome), cause, written.status)
        self.result = ClaimResult(
            outcome,
            "" if done else ANOTHER if changed else written.reason,
            final=final,
            refused_class=written.resource_class,
            refused_provider=written.provider,
            made=written.held if done else None,
            previous=self._source,
            lost=self._lost,
            held=written.held if changed else None,
            events=tuple(self._history.events),
        )

    def refuse(self, refusal: Refusal) -> None:
        """End the claim before its next write."""
        self._history.add(end_of(refusal.outcome), refusal.reason)
        events = tuple(self._history.events)
        self.result = ClaimResult(refusal.outcome, refusal.reason, lost=self._lost, events=events)

    def _keep_source(self, source: ConsumerAllocations) -> None:
        """Write in addition to what an evacuated instance holds.

        A provider in both keeps its old amounts: source and destination share it.
        """
        self._history.add(ClaimState.KEEPING_SOURCE, "the instance holds allocations of an evacuated host")
        self._source = source
        allocations = {**self.request.candidate.allocations, **source.allocations}
        self.write = Write(allocations, self.request.owner, source.generation, history=self._history)

    def _is_source(self, held: ConsumerAllocations) -> bool:
        """Return whether an instance holds nothing but what it keeps, on hosts that it leaves."""
        leaves = self.request.evacuating_from
        if not leaves or not held.allocations:
            return False
        beside = {provider for provider in held.allocations if provider not in leaves}
        if any(provider in self.request.nodes for provider in beside):
            return False
        try:
            roots = {each: self._reader.root_of(each, self.request.context) for each in beside}
        except PlacementSilent:
            return False
        beside = {provider for provider in beside if roots[provider] not in leaves}
        # They share something with hosts, or are hosts of another partition.
        if any(COMPUTE & held.allocations[provider]["resources"].keys() for provider in beside):
            return False
        return len(beside) < len(held.allocations)

    def _refuses_source(self, written: Written) -> bool:
        """Return whether a write is refused for what the instance keeps, which each of its claims writes."""
        is_refused = written.outcome in {Outcome.REFUSED, Outcome.GONE}
        return bool(is_refused and self._source and written.provider in self._source.allocations)


def claim_all(
    requests: Iterable[ClaimRequest],
    writer: AllocationWriter,
    refusal: Refuses,
    until: float,
    on_event: Callable[[], None] = lambda: None,
) -> Results:
    """Write claims for different instances until each has a result; those of one round in one POST.

    Never raises for a failure of Placement.

    Args:
        refusal: Returns why nothing more may be sent; None while it may.
        on_event: Called at each event of a claim; must not wait.
    """
    claims = [Claim(request, writer.reader, on_event) for request in requests]
    _read_sources([one for one in claims if one.request.evacuating_from], writer.reader)
    while left := {one.request.uuid: one for one in claims if one.result is None}:
        if why := refusal():
            for one in left.values():
                one.refuse(why)
            break
        writes = {uuid: one.write for uuid, one in left.items()}
        context = next(iter(left.values())).request.context
        written = writer.write(writes, until=until, refusal=refusal, context=context)
        for uuid, each in written.items():
            left[uuid].take(each)
    return {one.request.uuid: one.result for one in claims if one.result is not None}


def _read_sources(claims: Iterable[Claim], reader: AllocationReader) -> None:
    """Read what evacuated instances hold; otherwise their first write would always be refused."""
    with suppress(PlacementSilent):  # then the first write meets what they hold
        for one in claims:
            one.begin(reader.read(one.request.uuid, one.request.context))
