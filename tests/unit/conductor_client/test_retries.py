import pytest

from conductor_client import retries
from scheduler import errors
from tests.unit.conductor_client.doubles import make_selection, make_spec


@pytest.mark.parametrize(
    ("fields", "max_attempts", "retries_allowed"),
    [
        ({}, 3, True),
        ({}, 1, False),
        ({"force_hosts": ["a"]}, 3, False),
        ({"force_nodes": ["a"]}, 3, False),
        ({"force_hosts": ["a", "b"]}, 3, True),
        ({"force_hosts": [], "force_nodes": None}, 3, True),
    ],
)
def test_when_a_failed_build_may_be_tried_elsewhere(fields, max_attempts, retries_allowed):
    assert ("retry" in retries.first(make_spec(**fields), max_attempts)) is retries_allowed


def test_attempts_are_counted_up_to_the_limit():
    properties = retries.first(make_spec(), 3)
    properties = retries.again(retries.again(properties, 3), 3)
    assert properties["retry"]["num_attempts"] == 3
    with pytest.raises(errors.NoValidHost):
        retries.again(properties, 3)


def test_hosts_that_were_tried_are_listed():
    properties = retries.on_host(retries.first(make_spec(), 3), make_selection("a"))
    properties = retries.on_host(retries.again(properties, 3), make_selection("b"))
    assert properties["retry"] == {
        "num_attempts": 2,
        "hosts": [["a", "a.example.net"], ["b", "b.example.net"]],
    }
    assert properties["limits"].vcpu is None


def test_without_retry_only_the_limits_are_added():
    assert set(retries.on_host({}, make_selection("a"))) == {"limits"}
