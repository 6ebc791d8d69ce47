"""The response to ``GET /allocation_candidates``, by compute host (spec: placement-and-workflow 2)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import msgspec
import orjson

from scheduler.placement.errors import PlacementSilent, PlacementUnanswered
from scheduler.request.query import MICROVERSION

SHARING = "MISC_SHARES_VIA_AGGREGATE"

Resources = dict[str, dict[str, dict[str, int]]]
"""provider UUID → ``{"resources": {class: amount}}``"""


class AllocationCandidate(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One way for one host to take the request. It is shared by requests and must not be changed.

    Attributes:
        root: UUID of the compute node.
        roots: The compute node and the roots of all other providers that it takes from, sorted.
        stored: What it takes by provider UUID, as JSON; see ``allocations``.
        mappings: By suffix of a request group, the UUIDs of the providers that serve it.
    """

    root: str
    roots: tuple[str, ...]
    stored: dict[str, msgspec.Raw]
    mappings: dict[str, list[str]]

    @classmethod
    def of(
        cls, root: str, roots: tuple[str, ...], allocations: Resources, mappings: dict[str, list[str]]
    ) -> "AllocationCandidate":
        """Make a candidate of plain values; responses have JSON."""
        return cls(
            root, roots, {name: msgspec.Raw(orjson.dumps(e)) for name, e in allocations.items()}, mappings
        )

    @property
    def allocations(self) -> Resources:
        """By provider UUID ``{"resources": {class: amount}}``.

        It is read each time: of ten thousand candidates one is claimed.

        Raises:
            msgspec.ValidationError: The JSON has another shape.
        """
        return {provider: _taken.decode(text) for provider, text in self.stored.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return a copy, as operators' filters know candidates (spec: filters-and-weighers 1.8)."""
        mappings = {suffix: list(providers) for suffix, providers in self.mappings.items()}
        return {"allocations": self.allocations, "mappings": mappings}

    def having(self, content: Mapping[str, Any]) -> "AllocationCandidate":
        """Return a candidate of the same host with the content of a dictionary; this one if that is equal."""
        if content == self.as_dict():
            return self
        return self.of(self.root, self.roots, content["allocations"], content["mappings"])

    @property
    def version(self) -> str:
        """The microversion at which conductors may claim it."""
        return MICROVERSION

    def text(self) -> str:
        """Return the ``allocation_request`` of a Selection."""
        return orjson.dumps(self.as_dict()).decode()


class Usage(msgspec.Struct, frozen=True, gc=False):
    """A resource class of a provider.

    Attributes:
        capacity: All that can be allocated, overcommit and reservations included.
        used: What is allocated; it may exceed the capacity.
    """

    capacity: int
    used: int


class _AllocationRequest(msgspec.Struct, gc=False):
    allocations: dict[str, msgspec.Raw]
    mappings: dict[str, list[str]]


class _Root(msgspec.Struct, gc=False):
    root_provider_uuid: str


class _Body(msgspec.Struct):
    # Most of a body is traits and inventories, which few requests need: they are skipped here, and read in a
    # second pass for those that do.
    allocation_requests: list[_AllocationRequest]
    provider_summaries: dict[str, _Root]


class _Summary(msgspec.Struct, gc=False):
    traits: frozenset[str] = frozenset()
    resources: dict[str, Usage] = {}


class _Summaries(msgspec.Struct):
    provider_summaries: dict[str, msgspec.Raw]


_body = msgspec.json.Decoder(_Body)
_taken = msgspec.json.Decoder(dict[str, dict[str, int]])
_summaries = msgspec.json.Decoder(_Summaries)
_summary = msgspec.json.Decoder(_Summary)


class Summaries:
    """The provider summaries of a response, read when first needed."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    @cached_property
    def _texts(self) -> Mapping[str, msgspec.Raw]:
        return _summaries.decode(self._body).provider_summaries

    def of(self, provider: str) -> _Summary:
        """Return the traits and resources of a provider; empty if the response has no summary of it."""
        text = self._texts.get(provider)
        return _summary.decode(text) if text else _Summary()


@dataclass(frozen=True, slots=True)
class Candidates:
    """What Placement offers for a request. It is shared by requests and must not be changed.

    Attributes:
        by_root: By compute node UUID its candidates, both in the order of the response.
        truncated: Whether there may be more than the limit let through.
        reason: Why it is empty; "" if it is not.
        failed: Whether it is empty because Placement did not respond, or refused the query.
        rejection: What is wrong with the query, in Placement's words, if that is why it refused it.
        timed_out: Whether it did not respond in time.
        sent_at: When the query was sent, in seconds of ``time.monotonic``.
        requests: The number of requests that waited for this answer together.
    """

    by_root: Mapping[str, tuple[AllocationCandidate, ...]] = field(default_factory=dict)
    truncated: bool = False
    reason: str = ""
    failed: bool = False
    rejection: str = ""
    timed_out: bool = False
    sent_at: float = 0.0
    requests: int = 1
    _summaries: tuple[Summaries, ...] = field(default=(), repr=False)

    def usage(self, provider: str) -> Mapping[str, Usage]:
        """Return the usage of a provider by resource class; empty if Placement did not send it."""
        return next((found for each in self._summaries if (found := each.of(provider).resources)), {})


def parse(body: bytes, limit: int | None, sent_at: float = 0.0) -> Candidates:
    """Return the candidates in the body of a 200, grouped by host.

    Args:
        limit: The limit of the query, or None.

    Raises:
        msgspec.DecodeError: It is no JSON; ``ValidationError``, a subclass: JSON of another shape.
    """
    answer = _body.decode(body)
    summaries = Summaries(body)
    try:
        by_root = _group(answer, summaries)
    except KeyError as missing:
        raise msgspec.ValidationError(f"provider {missing} has no summary") from missing
    return Candidates(
        by_root=by_root,
        truncated=limit is not None and len(answer.allocation_requests) >= limit,
        reason="" if by_root else "no provider satisfies the request",
        sent_at=sent_at,
        _summaries=(summaries,),
    )


def _group(answer: _Body, summaries: Summaries) -> dict[str, tuple[AllocationCandidate, ...]]:
    groups: dict[str, tuple[AllocationCandidate, ...]] = {}
    roots_of = answer.provider_summaries
    for request in answer.allocation_requests:
        stored = request.allocations
        if stored:
            roots = _roots(stored, roots_of)
            root = roots[0] if len(roots) == 1 else _compute_root(stored, roots_of, summaries)
            candidate = AllocationCandidate(root, roots, stored, request.mappings)
            groups[root] = (*groups[root], candidate) if root in groups else (candidate,)
    return groups


def _roots(providers: Collection[str], roots_of: Mapping[str, _Root]) -> tuple[str, ...]:
    if len(providers) == 1:
        (provider,) = providers
        return (roots_of[provider].root_provider_uuid,)
    return tuple(sorted({roots_of[provider].root_provider_uuid for provider in providers}))


def _compute_root(
    stored: Mapping[str, msgspec.Raw], roots_of: Mapping[str, _Root], summaries: Summaries
) -> str:
    """Return the root of the tree that shares nothing; if all share, of the one that gives most classes."""
    classes: dict[tuple[bool, str], int] = {}
    for provider, text in stored.items():
        shares = SHARING in summaries.of(provider).traits
        key = (not shares, roots_of[provider].root_provider_uuid)
        classes[key] = classes.get(key, 0) + len(_taken.decode(text)["resources"])
    (_, root), _ = max(classes.items(), key=lambda item: (item[0][0], item[1]))
    return root


def unanswered(error: PlacementSilent, sent_at: float = 0.0) -> Candidates:
    """Return what stands for the answer to a query that Placement did not answer."""
    timed_out = isinstance(error, PlacementUnanswered) and error.timed_out
    reason = f"Placement does not respond: {error}"
    return Candidates(reason=reason, failed=True, timed_out=timed_out, sent_at=sent_at)


def merge(first: Candidates, second: Candidates) -> Candidates:
    """Return the candidates of both; those of the first come before those of the second."""
    by_root = {
        root: (*first.by_root.get(root, ()), *second.by_root.get(root, ()))
        for root in dict.fromkeys(chain(first.by_root, second.by_root))
    }
    return Candidates(
        by_root=by_root,
        truncated=first.truncated or second.truncated,
        reason="" if by_root else first.reason if first.failed else second.reason,
        failed=not by_root and (first.failed or second.failed),
        rejection="" if by_root else first.rejection or second.rejection,
        timed_out=first.timed_out or second.timed_out,
        sent_at=min(first.sent_at, second.sent_at),
        requests=max(first.requests, second.requests),
        _summaries=second._summaries + first._summaries,  # noqa: SLF001 - of the same class
    )
