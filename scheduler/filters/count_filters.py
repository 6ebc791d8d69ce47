"""What the rules that count things on a host share.

Not too many builds, resizes and snapshots at a time (spec: filters-and-weighers 2.15).

Not too many instances on a host (spec: filters-and-weighers 2.16).
"""

from typing import Any

import numpy as np

from scheduler.filters.base import HostFilter
from scheduler.hosts.aggregates import AggregateSet
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView


class CountFilter(HostFilter):
    """Passes hosts with less in ``column`` than ``[filter_scheduler]`` ``option`` says."""

    column = ""
    option = ""
    noun = ""

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        return hosts.numbers(self.column) < self.limits(hosts)

    def limits(self, hosts: HostView) -> int | np.ndarray:
        """The limit of all hosts, or that of each."""
        return self.limit(AggregateSet(()))

    def limit(self, aggregates: AggregateSet) -> int:
        """The limit of hosts in these aggregates."""
        return self.conf.filter_scheduler[self.option]

    def reason(self, host: HostState, request: Any) -> str:
        return f"{getattr(host, self.column)} {self.noun}, limit {self.limit(AggregateSet(host.aggregates))}"


class AggregateCountFilter(CountFilter):
    """As ``CountFilter``; the smallest integer under the metadata key named as the option has precedence.

    If any of them is no integer the option holds.
    """

    def limits(self, hosts: HostView) -> int | np.ndarray:
        default = self.conf.filter_scheduler[self.option]
        return hosts.coded("aggregates").spread(
            lambda aggregates: aggregates.smallest(self.option, int, default), np.float64
        )

    def limit(self, aggregates: AggregateSet) -> int:
        return aggregates.smallest(self.option, int, super().limit(aggregates))


class IoOpsFilter(CountFilter):
    """Fewer I/O operations than ``max_io_ops_per_host`` (8)."""

    column = "num_io_ops"
    option = "max_io_ops_per_host"
    noun = "I/O operations"


class AggregateIoOpsFilter(AggregateCountFilter):
    """The same; aggregate metadata ``max_io_ops_per_host`` has precedence."""

    column = IoOpsFilter.column
    option = IoOpsFilter.option
    noun = IoOpsFilter.noun


class NumInstancesFilter(CountFilter):
    """Fewer instances than ``max_instances_per_host`` (50)."""

    column = "num_instances"
    option = "max_instances_per_host"
    noun = "instances"


class AggregateNumInstancesFilter(AggregateCountFilter):
    """The same; aggregate metadata ``max_instances_per_host`` has precedence."""

    column = NumInstancesFilter.column
    option = NumInstancesFilter.option
    noun = NumInstancesFilter.noun
