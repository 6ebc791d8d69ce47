"""What the rules of nova's past on memory, CPUs and disk share (spec: filters-and-weighers 2.21)."""

import numpy as np

from scheduler.filters.base import HostFilter
from scheduler.hosts.aggregates import AggregateSet
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView


class OvercommitFilter(HostFilter):
    """A rule that stretches an amount by an allocation ratio.

    ``ratio`` names the column; with ``by_aggregate`` the smallest number that a host's aggregates have under
    that metadata key has precedence, if all of them are numbers.
    """

    ratio = ""
    by_aggregate = False

    def ratios(self, hosts: HostView) -> np.ndarray:
        """The ratio of each host, shape (hosts,)."""
        own = hosts.numbers(self.ratio)
        if not self.by_aggregate:
            return own
        stored = hosts.coded("aggregates").spread(
            lambda aggregates: aggregates.smallest(self.ratio, float, np.nan), np.float64
        )
        return np.where(np.isnan(stored), own, stored)

    def ratio_of(self, host: HostState) -> float:
        """The ratio of one host."""
        own = getattr(host, self.ratio)
        return AggregateSet(host.aggregates).smallest(self.ratio, float, own) if self.by_aggregate else own
