"""What hosts report of themselves, in numbers.

Not too much on a host at a time: I/O operations (spec: filters-and-weighers 2.15), instances (2.16). Both
counts are compared with an option, or with what the host's aggregates have under the name of the option. And
the metrics that weighing needs (2.18).
"""

import numpy as np
from oslo_config import cfg

from scheduler.conf.option_pairs import parse_options
from scheduler.filters.base import HostFilter, Judge
from scheduler.hosts.aggregates import AggregateSet
from scheduler.hosts.host_state import HostState, aggregate_set
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
        configured = self.conf.filter_scheduler[self.option]

        def limit(aggregates: AggregateSet) -> float:
            return aggregates.smallest(self.option, int, configured) if self.by_aggregate else configured

        def passes(hosts: HostView) -> np.ndarray:
            limits = hosts.coded("aggregates").spread(limit, np.float64) if self.by_aggregate else configured
            return hosts.numbers(self.column) < limits

        return Judge(
            passes,
            lambda host: f"{getattr(host, self.column)} {self.noun}, limit {limit(aggregate_set(host))}",
        )


class IoOpsFilter(CountFilter):
    """Fewer I/O operations than ``max_io_ops_per_host`` (8)."""

    column = "num_io_ops"
    option = "max_io_ops_per_host"
    noun = "I/O operations"


class AggregateIoOpsFilter(IoOpsFilter):
    """The same; aggregate metadata ``max_io_ops_per_host`` has precedence."""

    by_aggregate = True


class NumInstancesFilter(CountFilter):
    """Fewer instances than ``max_instances_per_host`` (50)."""

    column = "num_instances"
    option = "max_instances_per_host"
    noun = "instances"


class AggregateNumInstancesFilter(NumInstancesFilter):
    """The same; aggregate metadata ``max_instances_per_host`` has precedence."""

    by_aggregate = True


class MetricsFilter(HostFilter):
    """Every metric named in ``[metrics] weight_setting`` is reported, whatever its ratio (0 included).

    The option is read when the filter is made.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        settings = parse_options(conf.metrics.weight_setting, "=", float, "[metrics] weight_setting")
        self.required = frozenset(name for name, _ in settings)

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        if not self.required:
            return None
        return Judge(
            lambda hosts: hosts.coded("metrics").spread(
                lambda metrics: self.required <= {metric.name for metric in metrics.value}
            ),
            self._reason,
        )

    def _reason(self, host: HostState) -> str:
        missing = self.required.difference(metric.name for metric in host.metrics)
        return f"metrics not reported: {', '.join(sorted(missing))}"
