import pytest

from scheduler.hosts.aggregates import Aggregates, AggregateSet, HostAggregate

ZONE_A = HostAggregate(1, "u1", "zone-a", frozenset({"h1", "h2"}), {"availability_zone": "a", "ssd": "true"})
FAST = HostAggregate(2, "u2", "fast", frozenset({"h2"}), {"ssd": "false, maybe"})
EMPTY = HostAggregate(3, "u3", "empty")
ALL = Aggregates([FAST, ZONE_A, EMPTY])


def ids(aggregates):
    return [aggregate.id for aggregate in aggregates]


@pytest.mark.parametrize(("host", "expected"), [("h1", [1]), ("h2", [1, 2]), ("h3", []), ("H1", [])])
def test_aggregates_of_a_host(host, expected):
    assert ids(ALL.of_host(host)) == expected
    assert len(ALL.of_host(host)) == len(expected)


def test_hosts_in_the_same_aggregates_share_one_set():
    both = Aggregates([HostAggregate(1, "u", "n", frozenset({"h1", "h2"}))])
    assert both.of_host("h1") is both.of_host("h2")
    assert both.of_host("h3") is both.of_host("h4")


def test_metadata_of_a_set():
    both = ALL.of_host("h2")
    assert both.metadata == {"availability_zone": {"a"}, "ssd": {"true", "false", "maybe"}}
    assert both.raw("ssd") == {"true", "false, maybe"}
    assert both.raw("nothing") == frozenset()


@pytest.mark.parametrize(
    ("zones", "expected"), [([], "nova"), (["b"], "b"), (["b", "a"], "a"), (["b, a"], "a"), (["", "a"], "")]
)
def test_availability_zone(zones, expected):
    aggregates = [
        HostAggregate(n, "", "", metadata={"availability_zone": zone}) for n, zone in enumerate(zones)
    ]
    assert AggregateSet(aggregates).availability_zone("nova") == expected


# spec: filters-and-weighers 1.9, multipliers per aggregate
SMALLEST = [
    ([], 1.0, 1.0),
    (["1.9"], 1.0, 1.9),
    (["1.9", "1.8"], 1.0, 1.8),
    (["invalid"], 1.0, 1.0),
    (["bad", "2"], 1.5, 1.5),
    (["1,2"], 1.0, 1.0),
    ([" 2 "], 1.0, 2.0),
    (["-1"], 1.0, -1.0),
    (["1e3"], 1.0, 1000.0),
]


@pytest.mark.parametrize(("values", "default", "expected"), SMALLEST)
def test_smallest_number_under_a_key(values, default, expected):
    aggregates = [HostAggregate(n, "", "", metadata={"key": value}) for n, value in enumerate(values)]
    assert AggregateSet(aggregates).smallest("key", float, default) == expected


def test_a_value_that_is_no_number_is_logged_once_for_a_set_of_aggregates(caplog):
    aggregates = AggregateSet([HostAggregate(1, "u", "n", metadata={"key": "much"})])
    assert [aggregates.smallest("key", float, default) for default in (1.0, 2.0, 1.0)] == [1.0, 2.0, 1.0]
    assert caplog.text.count("Aggregate metadata key key has a value that is not a number") == 1
