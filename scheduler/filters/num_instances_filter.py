"""Not too many instances on a host (spec: filters-and-weighers 2.16)."""

from scheduler.filters.counts import AggregateCountFilter, CountFilter


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
