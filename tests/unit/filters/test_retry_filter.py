"""RetryFilter (spec: filters-and-weighers 2.21)."""

import pytest

from scheduler import objects
from scheduler.filters.named_hosts_filters import RetryFilter
from tests.builders import make_host
from tests.unit.filters.asking import ask, make_request, why


def tried(*pairs):
    nodes = [objects.ComputeNode(host=host, hypervisor_hostname=node) for host, node in pairs]
    return objects.SchedulerRetries(num_attempts=1, hosts=objects.ComputeNodeList(objects=nodes))


@pytest.mark.parametrize(
    ("retry", "passes"),
    [
        (None, True),
        (objects.SchedulerRetries(num_attempts=1), True),
        (tried(), True),
        (tried(("h", "other")), True),
        (tried(("other", "n")), True),
        (tried(("x", "y"), ("h", "n")), False),
    ],
)
def test_table(retry, passes):
    assert ask(RetryFilter, make_host("h", "n"), make_request(retry=retry)) is passes


def test_reason():
    assert why(RetryFilter, make_host("h", "n"), make_request(retry=tried(("h", "n")))) == "tried before"
