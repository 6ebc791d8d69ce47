"""The answer of ``GET /allocation_candidates``, sorted by compute host (spec: placement-and-workflow 2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import orjson

from scheduler.request.query import MICROVERSION

SHARING = b'"MISC_SHARES_VIA_AGGREGATE"'

Resources = dict[str, dict[str, dict[str, int]]]
"""provider UUID → ``{"resources": {class: amount}}``"""


class AllocationCandidate(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One way for one host to take the request. Shared by requests: nobody may change it.

    :ivar root: UUID of the compute node.
    :ivar roots: the compute node and the roots of all other providers that it takes from, sorted.
    :ivar allocations: provider UUID → ``{"resources": {class: amount}}``.
    :ivar mappings: suffix of a request group → UUIDs of the providers that serve it.
    """

    root: str
    roots: tuple[str, ...]
    allocations: Resources
    mappings: dict[str, list[str]]

    @property
    def version(self) -> str:
        """The microversion at which conductors may claim it."""
        return MICROVERSION

    def text(self) -> str:
        """The ``allocation_request`` of a Selection."""
        return orjson.dumps({"allocations": self.allocations, "mappings": self.mappings}).decode()


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Of a class on a provider, overcommit and reservations included. ``used`` may exceed ``capacity``."""

    capacity: int
    used: int


class _Request(msgspec.Struct, gc=False):
    allocations: Resources
    mappings: dict[str, list[str]]


class _Summary(msgspec.Struct, gc=False):
    # Most of the body is names of traits: they stay text, and resources do until somebody asks.
    root_provider_uuid: str
    traits: msgspec.Raw
    resources: msgspec.Raw

    @property
    def sharing(self) -> bool:
        return SHARING in bytes(self.traits)


class _Body(msgspec.Struct):
    allocation_requests: list[_Request]
    provider_summaries: dict[str, _Summary]


_body = msgspec.json.Decoder(_Body)
_usages = msgspec.json.Decoder(dict[str, Usage])


@dataclass(frozen=True, slots=True)
class Candidates:
    """What Placement offers for a request. Shared by requests: nobody may change it.

    :ivar by_root: compute node UUID → its candidates, both in the order of the answer.
    :ivar truncated: there may be more than the limit let through.
    :ivar reason: why it is empty; "" if it is not.
    :ivar failed: it is empty because Placement did not answer, or refused the query.
    :ivar sent_at: when the question was sent, in seconds of ``time.monotonic``.
    """

    by_root: Mapping[str, tuple[AllocationCandidate, ...]] = field(default_factory=dict)
    truncated: bool = False
    reason: str = ""
    failed: bool = False
    sent_at: float = 0.0
    _summaries: Mapping[str, _Summary] = field(default_factory=dict, repr=False)

    def usage(self, provider: str) -> dict[str, Usage]:
        """A provider's classes and their usage when the answer was made; empty if it is not part of it."""
        summary = self._summaries.get(provider)
        return _usages.decode(summary.resources) if summary else {}

    def shortage(self, candidate: AllocationCandidate) -> str:
        """The first class of which the candidate wants more than was free, else "".

        A server with ``optimize_for_wide_provider_trees`` offers such candidates; the claim would be refused.
        """
        for provider, entry in candidate.allocations.items():
            usage = self.usage(provider)
            for name, amount in entry["resources"].items():
                if name in usage and usage[name].used + amount > usage[name].capacity:
                    return name
        return ""


def parse(body: bytes, limit: int | None, sent_at: float = 0.0) -> Candidates:
    """The body of a 200, grouped by host.

    :raises msgspec.DecodeError: it is none (``ValidationError``, a subclass: JSON of another shape).
    """
    answer = _body.decode(body)
    try:
        by_root = _group(answer)
    except KeyError as missing:
        raise msgspec.ValidationError(f"provider {missing} has no summary") from missing
    return Candidates(
        by_root=by_root,
        truncated=limit is not None and len(answer.allocation_requests) >= limit,
        reason="" if by_root else "no provider satisfies the request",
        sent_at=sent_at,
        _summaries=answer.provider_summaries,
    )


def _group(answer: _Body) -> dict[str, tuple[AllocationCandidate, ...]]:
    groups: dict[str, list[AllocationCandidate]] = {}
    for request in answer.allocation_requests:
        if request.allocations:
            root, roots = _roots(request.allocations, answer.provider_summaries)
            candidate = AllocationCandidate(root, roots, request.allocations, request.mappings)
            groups.setdefault(root, []).append(candidate)
    return {root: tuple(group) for root, group in groups.items()}


def _roots(allocations, summaries) -> tuple[str, tuple[str, ...]]:
    providers = iter(allocations)
    if len(allocations) == 1:
        root = summaries[next(providers)].root_provider_uuid
        return root, (root,)
    roots = {summaries[provider].root_provider_uuid for provider in providers}
    ordered = tuple(sorted(roots))
    return (ordered[0] if len(ordered) == 1 else _compute_root(allocations, summaries)), ordered


def _compute_root(allocations, summaries) -> str:
    """Of several trees, the one that shares nothing; if all do, the one that gives most classes."""
    classes: dict[tuple[bool, str], int] = {}
    for provider, entry in allocations.items():
        summary = summaries[provider]
        key = (not summary.sharing, summary.root_provider_uuid)
        classes[key] = classes.get(key, 0) + len(entry["resources"])
    (_, root), _ = max(classes.items(), key=lambda item: (item[0][0], item[1]))
    return root


def merge(first: Candidates, second: Candidates) -> Candidates:
    """The candidates of both, those of the first before the second's, none twice."""
    by_root = dict(first.by_root)
    for root, group in second.by_root.items():
        known = by_root.get(root, ())
        seen = {_content(candidate) for candidate in known}
        by_root[root] = known + tuple(candidate for candidate in group if _content(candidate) not in seen)
    return Candidates(
        by_root=by_root,
        truncated=first.truncated or second.truncated,
        reason="" if by_root else first.reason if first.failed else second.reason,
        failed=not by_root and (first.failed or second.failed),
        sent_at=min(first.sent_at, second.sent_at),
        _summaries={**first._summaries, **second._summaries},  # noqa: SLF001 - of the same class
    )


def _content(candidate: AllocationCandidate):
    amounts = (
        (provider, name, amount)
        for provider, entry in candidate.allocations.items()
        for name, amount in entry["resources"].items()
    )
    served = (
        (suffix, provider) for suffix, providers in candidate.mappings.items() for provider in providers
    )
    return frozenset(amounts), frozenset(served)
