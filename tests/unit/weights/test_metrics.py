import pytest

from scheduler.errors import ComputeHostMetricNotFound
from scheduler.hosts.rows import Metric
from scheduler.weights.metrics import MetricsWeigher
from tests.builders import make_host
from tests.unit.weights.weighing import totals

FREQUENCY, PERCENT = "cpu.frequency", "cpu.percent"
SETTING = [f"{FREQUENCY}=0.5", f"{PERCENT}=-1.0"]


def host(name, frequency=None, percent=None):
    values = {FREQUENCY: frequency, PERCENT: percent}
    return make_host(name).metrics({key: value for key, value in values.items() if value is not None})


def weigh(hosts, setting=SETTING, **options):
    return list(totals([MetricsWeigher], hosts, metrics__weight_setting=setting, **options).values())


def test_sum_of_metric_times_ratio():
    found = weigh([host("h1", 2000, 50), host("h2", 3000, 90), host("h3", 2400, 10)])
    assert found == pytest.approx([0, 1.0, 240 / 460])


def test_a_missing_metric_that_is_not_required_makes_the_host_unavailable():
    hosts = [host("h1", 2000, 50), host("h2", 3000), host("h3", 2400, 10)]
    assert weigh(hosts, metrics__required=False) == pytest.approx([10950 / 11190, 0, 1.0])


def test_a_missing_metric_that_is_required_ends_the_request():
    with pytest.raises(ComputeHostMetricNotFound, match=r"cpu\.percent.*h2\.h2"):
        weigh([host("h1", 2000, 50), host("h2", 3000)])


def test_a_required_metric_is_required_even_with_ratio_zero():
    with pytest.raises(ComputeHostMetricNotFound):
        weigh([host("h1"), host("h2", 1)], [f"{FREQUENCY}=0"])


def test_ratio_zero_does_not_make_a_host_unavailable():
    hosts = [host("h1", 5), host("h2", 7, 3)]
    found = weigh(hosts, [f"{FREQUENCY}=1", f"{PERCENT}=0"], metrics__required=False)
    assert found == [0, 1.0]


def test_nothing_set_nothing_weighed():
    assert weigh([host("h1"), host("h2")], []) == [0, 0]


def test_a_lone_host_may_lack_a_required_metric():
    assert weigh([host("h1")]) == [0]


def test_bandwidth_metrics_without_a_value_count_as_missing():
    bandwidth = Metric("numa.membw.current", None, None, None, {"0": 10})
    hosts = [make_host("h1").metrics({bandwidth.name: bandwidth}), make_host("h2")]
    with pytest.raises(ComputeHostMetricNotFound):
        weigh(hosts, ["numa.membw.current=1"])


def test_a_name_given_twice_counts_twice_and_bad_entries_do_not():
    hosts = [host("h1", 10), host("h2", 20)]
    setting = [f"{FREQUENCY}=-2", f"{FREQUENCY}=1", "name", "name=", "=5", "name=a1"]
    assert weigh(hosts, setting) == [1.0, 0]


def test_multiplier_of_the_aggregate_decides_whether_a_gap_matters():
    hosts = [host("h1", 5).aggregate("a", metrics_weight_multiplier="0"), host("h2", 5, 4), host("h3", 6, 4)]
    assert weigh(hosts, metrics__required=False) == pytest.approx([0, 0, 0.125], abs=1)
