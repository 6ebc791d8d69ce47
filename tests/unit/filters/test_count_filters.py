"""IoOpsFilter, NumInstancesFilter and their aggregate variants (spec: filters-and-weighers 2.15, 2.16).

Their verdicts are compared with those of nova in tests/recorded.
"""

from scheduler.filters.count_filters import (
    AggregateNumInstancesFilter,
    IoOpsFilter,
)
from tests.unit.filters.asking import host_in, make_request, why


def test_reasons():
    assert why(IoOpsFilter, host_in().io_ops(8), make_request()) == "8 I/O operations, limit 8"
    crowded = host_in({"max_instances_per_host": "3"}).num_instances(5)
    assert why(AggregateNumInstancesFilter, crowded, make_request()) == "5 instances, limit 3"


def test_every_instance_is_judged():
    assert IoOpsFilter.run_filter_once_per_request is False
    assert AggregateNumInstancesFilter.run_filter_once_per_request is False
