"""MetricsFilter (spec: filters-and-weighers 2.18); its verdicts are compared with nova's in tests/recorded."""

from scheduler.filters.count_filters import MetricsFilter
from tests.builders import make_host
from tests.unit.filters.asking import make_conf, make_request, why


def test_reason_names_what_is_missing():
    host = make_host("h").metrics({"a": 1})
    reason = why(MetricsFilter, host, make_request(), metrics__weight_setting=["c=1", "a=1", "b=1"])
    assert reason == "metrics not reported: b, c"


def test_the_option_is_read_once():
    conf = make_conf(metrics__weight_setting=["a=1"])
    rule = MetricsFilter(conf)
    conf.set_override("weight_setting", [], "metrics")
    assert rule.required == {"a"}
