"""IoOpsFilter, NumInstancesFilter and their aggregate variants (spec: filters-and-weighers 2.15, 2.16)."""

import pytest

from scheduler.filters.count_filters import (
    AggregateIoOpsFilter,
    AggregateNumInstancesFilter,
    IoOpsFilter,
    NumInstancesFilter,
)
from tests.unit.filters.asking import ask, host_in, make_request, why

FAMILIES = {
    "io": (IoOpsFilter, AggregateIoOpsFilter, "num_io_ops", "max_io_ops_per_host"),
    "instances": (NumInstancesFilter, AggregateNumInstancesFilter, "num_instances", "max_instances_per_host"),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("row", "by_aggregate", "option", "values", "count", "passes"),
    [
        (1, False, 8, [], 7, True),
        (2, False, 8, [], 8, False),
        (3, False, 8, ["20"], 9, False),
        (4, True, 8, [], 7, True),
        (5, True, 7, [None], 7, False),
        (6, True, 7, ["8"], 7, True),
        (7, True, 8, ["5", "3"], 4, False),
        (8, True, 8, ["10", "9"], 9, False),
        (9, True, 8, ["XXX"], 7, True),
        (10, True, 8, ["5", "XXX"], 7, True),
        (11, True, 8, ["5.0"], 7, True),
        (12, True, 8, ["5,9"], 7, True),
        (13, True, 8, [" 5 "], 5, False),
        (14, True, 8, ["0"], 0, False),
    ],
)
def test_table(family, row, by_aggregate, option, values, count, passes):
    plain, aggregate, column, key = FAMILIES[family]
    host = host_in(*({"x": "y"} if value is None else {key: value} for value in values)).set(
        **{column: count}
    )
    assert ask(aggregate if by_aggregate else plain, host, make_request(), **{key: option}) is passes


def test_reasons():
    assert why(IoOpsFilter, host_in().io_ops(8), make_request()) == "8 I/O operations, limit 8"
    crowded = host_in({"max_instances_per_host": "3"}).num_instances(5)
    assert why(AggregateNumInstancesFilter, crowded, make_request()) == "5 instances, limit 3"


def test_every_instance_is_judged():
    assert IoOpsFilter.run_filter_once_per_request is False
    assert AggregateNumInstancesFilter.run_filter_once_per_request is False
