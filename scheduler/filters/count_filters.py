"""Not too much on a host at a time: I/O operations (spec: filters-and-weighers 2.15), instances (2.16).

Both counts are compared with an option, or with what the host's aggregates have under the name of the option.
"""

from dataclasses import dataclass

import numpy as np

from scheduler.filters.base import HostFilter, Judge
from scheduler.hosts.aggregates import AggregateSet
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest


class CountFilter(HostFilter):
    """Passes hosts with less in a column than an option says.

    Attributes:
        column: The column of the count.
        option: The option in ``[filter_scheduler]``, also the metadata key that overrides it.
        noun: What is counted, for reasons.
        by_aggregate: Whether the smallest integer that a host's aggregates have under that key has
            precedence, if all of them are integers.
    """

    column = ""
    option = ""
    noun = ""
    by_aggregate = False

    def prepare(self, request: SchedulingRequest) -> Judge:
        limit = self.conf.filter_scheduler[self.option]
        return _Below(self.column, self.noun, limit, self.option if self.by_aggregate else None)


@dataclass(frozen=True)
class _Below(Judge):
    column: str
    noun: str
    configured: int
    metadata_key: str | None

    def passes(self, hosts: HostView) -> np.ndarray:
        return hosts.numbers(self.column) < self._limits(hosts)

    def _limits(self, hosts: HostView) -> int | np.ndarray:
        if self.metadata_key is None:
            return self.configured
        return hosts.coded("aggregates").spread(self.limit, np.float64)

    def limit(self, aggregates: AggregateSet) -> float:
        if self.metadata_key is None:
            return self.configured
        return aggregates.smallest(self.metadata_key, int, self.configured)

    def reason(self, host: HostState) -> str:
        limit = self.limit(host.aggregate_set)
        return f"{getattr(host, self.column)} {self.noun}, limit {limit}"


class IoOpsFilter(CountFilter):
    """Fewer I/O operations than ``max_io_ops_per_host`` (8)."""

    nova_modules = ("io_ops_filter",)
    column = "num_io_ops"
    option = "max_io_ops_per_host"
    noun = "I/O operations"


class AggregateIoOpsFilter(IoOpsFilter):
    """The same; aggregate metadata ``max_io_ops_per_host`` has precedence."""

    by_aggregate = True


class NumInstancesFilter(CountFilter):
    """Fewer instances than ``max_instances_per_host`` (50)."""

    nova_modules = ("num_instances_filter",)
    column = "num_instances"
    option = "max_instances_per_host"
    noun = "instances"


class AggregateNumInstancesFilter(NumInstancesFilter):
    """The same; aggregate metadata ``max_instances_per_host`` has precedence."""

    by_aggregate = True
