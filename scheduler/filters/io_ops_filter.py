"""Not too many builds, resizes and snapshots at a time (spec: filters-and-weighers 2.15)."""

from scheduler.filters.counts import AggregateCountFilter, CountFilter


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
