import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.nova_db import json_columns

LARGE = 12345678901234567890123


@pytest.mark.parametrize(
    ("text", "data", "problem"),
    [
        ('{"a": "1", "b": null}', {"a": "1", "b": None}, None),
        ('{"a": 1, "b": true, "c": 1.5}', {"a": "1", "b": "True", "c": "1.5"}, None),
        ("{}", {}, None),
        (None, {}, None),
        ("", {}, None),
        ("null", {}, None),
        ("{", {}, "not JSON"),
        ("[]", {}, "not a JSON dict"),
        ("3", {}, "not a JSON dict"),
    ],
)
def test_stats_are_texts_by_key(text, data, problem):
    stats = json_columns.parse_stats(text)
    assert (stats.value, stats.problem) == (data, problem)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("3", 3),
        (3, 3),
        (None, 0),
        ("", 0),
        ("x", 0),
        ("1.5", 0),
        ([], 0),
        ([1], 0),
        (float("inf"), 0),
        (" 7 ", 7),
        ("9" * 30, 0),
        (-(2**40), 0),
    ],
)
def test_a_counter_is_a_number_of_usual_size_or_zero(value, expected):
    assert json_columns.counter({"k": value}, "k") == expected
    assert json_columns.counter({}, "k") == 0


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ('{"arch": "x86_64"}', {"arch": "x86_64"}),
        ("", None),
        (None, None),
        ("Xeon", None),
        ("7", 7),
        ('{"large": 12345678901234567890123, "none": Infinity}', {"large": LARGE, "none": float("inf")}),
        ("[" * 100_000, None),
    ],
)
def test_cpu_info_keeps_its_text_and_parses_json(text, parsed):
    info = json_columns.parse_cpu_info(text)
    assert (info.text, info.value) == (text, parsed)


@pytest.mark.parametrize(
    ("text", "triples"),
    [
        ('[["x86_64", "kvm", "hvm"]]', [("x86_64", "kvm", "hvm")]),
        ('[["AMD64", "XAPI", "PV"]]', [("x86_64", "xen", "xen")]),
        (
            '[["i386", "qemu", "hv"], ["x86_32p", "ironic", "baremetal"]]',
            [("i686", "qemu", "hvm"), ("i686", "ironic", "hvm")],
        ),
        ("[]", []),
        (None, []),
        ("null", []),
    ],
)
def test_supported_instances_have_canonical_names(text, triples):
    supported = json_columns.parse_supported_instances(text)
    assert supported.value == tuple(triples)
    assert supported.problem is None


@pytest.mark.parametrize(
    "bad",
    [
        '["x86_64", "unknown", "hvm"]',
        '["x86_64", "kvm", "odd"]',
        '["x86_64", "kvm"]',
        '["x86_64", "kvm", null]',
        "7",
    ],
)
def test_a_triple_that_cannot_be_used_is_left_out_alone(bad):
    supported = json_columns.parse_supported_instances(f'[{bad}, ["x86_64", "kvm", "hvm"]]')
    assert supported.value == (("x86_64", "kvm", "hvm"),)
    assert supported.problem.startswith("cannot use")


@pytest.mark.parametrize("text", ["{}", "x", '"a"'])
def test_supported_instances_that_are_no_list_have_a_problem(text):
    supported = json_columns.parse_supported_instances(text)
    assert supported.value == ()
    assert supported.problem


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("cpu.percent", 0.29, 28),
        ("cpu.percent", 0.27, 27),
        ("cpu.iowait.percent", 1, 100),
        ("cpu.frequency", 2400, 2400),
        ("cpu.user.time", 1.5, 1),
    ],
)
def test_metrics_are_whole_numbers(name, value, expected):
    metrics = json_columns.parse_metrics(
        f'[{{"name": "{name}", "value": {value}, "timestamp": "t", "source": "s"}}]'
    )
    (metric,) = metrics.value
    assert (metric.name, metric.value, metric.timestamp, metric.source) == (name, expected, "t", "s")
    assert type(metric.value) is type(expected)


def test_a_metric_without_value_has_none():
    (metric,) = json_columns.parse_metrics(
        '[{"name": "numa.membw.current", "numa_membw_values": {"0": 10}}]'
    ).value
    assert (metric.value, metric.numa_membw_values) == (None, {"0": 10})


@pytest.mark.parametrize(
    "bad",
    [
        '{"name": "odd", "value": 1}',
        '{"value": 1}',
        '{"name": "cpu.percent", "value": "x"}',
        '{"name": "cpu.percent", "value": true}',
        '{"name": ["cpu.percent"]}',
        "null",
    ],
)
def test_a_metric_that_cannot_be_used_is_left_out_alone(bad):
    metrics = json_columns.parse_metrics(f'[{bad}, {{"name": "cpu.frequency", "value": 1}}]')
    assert [metric.name for metric in metrics.value] == ["cpu.frequency"]
    assert metrics.problem


@pytest.mark.parametrize("text", [None, "", "null", "[]"])
def test_empty_texts_have_no_metrics(text):
    assert (json_columns.parse_metrics(text).value, json_columns.parse_metrics(text).problem) == ((), None)


@given(
    st.one_of(
        st.none(),
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ).map(json.dumps),
    )
)
def test_no_text_raises_an_error(text):
    for read in (
        json_columns.parse_stats,
        json_columns.parse_cpu_info,
        json_columns.parse_supported_instances,
        json_columns.parse_metrics,
    ):
        assert read(text) is not None
