"""MetricsFilter (spec: filters-and-weighers 2.18)."""

import pytest

from scheduler.filters.metrics_filter import MetricsFilter
from tests.builders import make_host
from tests.unit.filters.asking import ask, make_conf, make_request, why


# row 10, metrics never loaded, is a host that no table has
@pytest.mark.parametrize(
    ("row", "setting", "reported", "passes"),
    [
        (1, [], [], True),
        (2, ["cpu.frequency=1"], ["cpu.frequency", "cpu.percent"], True),
        (
            3,
            ["cpu.frequency=1", "numa.membw.current=2"],
            ["cpu.frequency", "numa.membw.current"],
            True,
        ),
        (4, ["foo=1", "bar=2"], ["cpu.frequency"], False),
        (5, ["cpu.frequency=1", "cpu.percent=1"], ["cpu.frequency"], False),
        (6, ["cpu.frequency=0"], [], False),
        (7, ["cpu.frequency"], [], True),
        (8, ["cpu.frequency=abc"], [], True),
        (9, ["cpu.frequency = 1"], ["cpu.frequency"], False),
        ("no name", ["=1"], [], True),
    ],
)
def test_table(row, setting, reported, passes):
    host = make_host("h").metrics(dict.fromkeys(reported, 1))
    assert ask(MetricsFilter, host, make_request(), metrics__weight_setting=setting) is passes


def test_reason_names_what_is_missing():
    host = make_host("h").metrics({"a": 1})
    reason = why(MetricsFilter, host, make_request(), metrics__weight_setting=["c=1", "a=1", "b=1"])
    assert reason == "metrics not reported: b, c"


def test_the_option_is_read_once():
    conf = make_conf(metrics__weight_setting=["a=1"])
    rule = MetricsFilter(conf)
    conf.set_override("weight_setting", [], "metrics")
    assert rule.required == {"a"}
