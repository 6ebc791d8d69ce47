"""Racks: which may have a request's instances, and which should. Each rule is here in both styles.

Hosts are in a rack by the metadata key ``rack`` of an aggregate. The scheduler hint ``rack`` asks for some.
"""

import numpy as np

from scheduler.filters.base import BaseHostFilter, HostFilter, Judge
from scheduler.weights.base import BaseHostWeigher, HostWeigher, Scorer


def wanted_racks(spec):
    """Return the racks that a RequestSpec names: the hint is a text, or a list of texts."""
    hint = spec.get_scheduler_hint("rack") or ()
    return {hint} if isinstance(hint, str) else set(hint)


class RackFilter(BaseHostFilter):
    """Only hosts of the racks that the request names. One host at a time, as nova's own filters do it."""

    run_filter_once_per_request = True

    def host_passes(self, host_state, spec_obj):
        racks = wanted_racks(spec_obj)
        return not racks or any(each.metadata.get("rack") in racks for each in host_state.aggregates)


class RackArrayFilter(HostFilter):
    """The same rule over all hosts at once: evaluated once for each distinct set of aggregates."""

    run_filter_once_per_request = True

    def prepare(self, request):
        racks = wanted_racks(request.spec)
        return RackJudge(racks) if racks else None


class RackJudge(Judge):
    """Judges hosts for one request."""

    def __init__(self, racks):
        self.racks = racks

    def passes(self, hosts):
        return hosts.coded("aggregates").spread(lambda aggregates: bool(self.racks & aggregates.raw("rack")))

    def reason(self, host):
        return f"not in rack {', '.join(sorted(self.racks))}"


class EvenFillWeigher(BaseHostWeigher):
    """Prefers hosts whose RAM is freer in proportion. One host at a time."""

    def _weigh_object(self, host_state, weight_properties):
        return host_state.free_ram_mb / max(host_state.total_usable_ram_mb, 1)


class EvenFillArrayWeigher(HostWeigher):
    """The same preference over all hosts at once."""

    def prepare(self, request):
        return EvenFillScorer()

    def multiplier(self, hosts):
        return 1.0


class EvenFillScorer(Scorer):
    """Weighs hosts for one request; nothing of the request matters."""

    def weigh(self, hosts):
        return hosts.numbers("free_ram_mb") / np.maximum(hosts.numbers("total_usable_ram_mb"), 1)
