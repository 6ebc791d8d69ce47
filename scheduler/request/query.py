"""RequestSpec → queries of ``GET /allocation_candidates`` (spec: placement-and-workflow 1.1, 1.10-1.13)."""

from collections import Counter
from dataclasses import dataclass
from urllib.parse import urlencode

from oslo_log import log as logging

from scheduler.logs import RateLimitedLogger
from scheduler.request import resource_request
from scheduler.request.groups import UNSUFFIXED, Pair, ResourceRequest
from scheduler.request.reading import read
from scheduler.request.targets import ANY_HOST, Targets

LOG = logging.getLogger(f"nova.{__name__}")
_REPEATED = RateLimitedLogger(LOG)

# What nova's conductors can use for claims of their own; from 1.38 on they could not.
MICROVERSION = "1.36"

# Filters for these hints need named hosts, which a limit could cut off.
_UNLIMITED_HINTS = ("group", "same_host", "different_host")


@dataclass(frozen=True, slots=True)
class Query:
    """One query of Placement.

    Attributes:
        params: The parameters, in order of name and value.
        querystring: The same as text; equal texts are equal queries.
        limit: The maximum number of candidates in the answer, or None.
    """

    params: tuple[Pair, ...]
    querystring: str
    limit: int | None

    def amounts(self) -> Counter[str]:
        """Return the amounts in all groups, by resource class."""
        amounts: Counter[str] = Counter()
        for name, value in self.params:
            if name.startswith("resources"):
                for text in value.split(","):
                    resource_class, _, amount = text.partition(":")
                    amounts[resource_class] += int(amount)
        return amounts


def build(spec, conf, targets: Targets = ANY_HOST) -> tuple[Query, ...]:
    """Return the query of a RequestSpec, and the fallback query with VCPUs for pinned CPUs if one is due.

    Options: ``[scheduler]max_placement_results``, ``[workarounds]disable_fallback_pcpu_query``.

    Args:
        spec: The request, with what the pre-filters added.
        targets: What ``targets.apply_lookup`` returned.

    Raises:
        InvalidRequest: Or a subclass, as ``resource_request.make``.
    """
    limit = _limit(spec, conf, targets)
    request = resource_request.make(spec)
    pinned = _finish(request, spec, targets, limit)
    if not request.pinned or conf.workarounds.disable_fallback_pcpu_query:
        return (pinned,)
    floating = resource_request.make(spec, translate_pinning=False)
    fallback = _finish(floating, spec, targets, limit)
    # With an explicit resources:PCPU both are the same.
    return (pinned,) if fallback == pinned else (pinned, fallback)


def _finish(request: ResourceRequest, spec, targets: Targets, limit: int | None) -> Query:
    request.prune()
    _apply_destination(request, spec, targets)
    _default_policy(request)
    return encode(request, limit)


def _apply_destination(request: ResourceRequest, spec, targets: Targets) -> None:
    destination = read(spec, "requested_destination")
    aggregates = read(destination, "aggregates", ())
    forbidden = read(destination, "forbidden_aggregates", ())
    if targets.in_tree or aggregates or forbidden:
        group = request.group()
        group.in_tree = targets.in_tree
        group.member_of.extend(any_of.split(",") for any_of in aggregates)
        group.not_member_of.update(forbidden)
    unsuffixed = request.groups.get(UNSUFFIXED)
    # Placement refuses an unnumbered group without resources. Hosts of other partitions are left out later.
    if targets.aggregates and not targets.in_tree and unsuffixed and unsuffixed.resources:
        unsuffixed.member_of.append(targets.aggregates)


def _default_policy(request: ResourceRequest) -> None:
    if request.group_policy is not None or request.count_suffixed() < 2:
        return
    if request.flavor_suffixes <= 1:
        LOG.debug("Several request groups without a group_policy in the flavor: 'none' is assumed")
        request.group_policy = "none"
    else:
        text = "The flavor has several suffixed groups but no group_policy; Placement will reject the query"
        _REPEATED.warning("group_policy", text)


def _limit(spec, conf, targets: Targets) -> int | None:
    hints = read(spec, "scheduler_hints", {})
    if not targets.limited or any(hint in hints for hint in _UNLIMITED_HINTS):
        return None
    return conf.scheduler.max_placement_results


def without_limit(query: Query) -> Query:
    pairs = tuple(pair for pair in query.params if pair[0] != "limit")
    return Query(pairs, urlencode(pairs), None)


def encode(request: ResourceRequest, limit: int | None) -> Query:
    """Return the canonical form: pairs sorted by name and value, form-encoded."""
    pairs = list(request.pairs())
    if limit is not None:
        pairs.append(("limit", str(limit)))
    pairs.sort()
    return Query(tuple(pairs), urlencode(pairs), limit)
