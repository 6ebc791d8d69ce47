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


def test_a_missing_metric_that_is_required_ends_the_request():
    with pytest.raises(ComputeHostMetricNotFound, match=r"cpu\.percent.*h2\.h2"):
        weigh([host("h1", 2000, 50), host("h2", 3000)])


def test_a_required_metric_is_required_even_with_ratio_zero():
    with pytest.raises(ComputeHostMetricNotFound):
        weigh([host("h1"), host("h2", 1)], [f"{FREQUENCY}=0"])


def test_a_lone_host_may_lack_a_required_metric():
    assert weigh([host("h1")]) == [0]


def test_bandwidth_metrics_without_a_value_count_as_missing():
    bandwidth = Metric("numa.membw.current", None, None, None, {"0": 10})
    hosts = [make_host("h1").metrics({bandwidth.name: bandwidth}), make_host("h2")]
    with pytest.raises(ComputeHostMetricNotFound):
        weigh(hosts, ["numa.membw.current=1"])
