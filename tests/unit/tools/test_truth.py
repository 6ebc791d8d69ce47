import pytest

from tools import truth
from tools.placement_fleet import Provider

URL = "http://placement"
AMOUNTS = {"VCPU": 2, "MEMORY_MB": 512}
INVENTORIES = {
    "VCPU": {"total": 2, "reserved": 1, "allocation_ratio": 4.0},
    "MEMORY_MB": {"total": 1024, "reserved": 0, "allocation_ratio": 1.0},
}


@pytest.fixture
def look(requests_mock):
    """A function from {provider: {consumer: amounts}} and what is expected to the problems found."""

    def check(held, expected):
        providers = [Provider(name, name) for name in ("a", "b")]
        for provider in providers:
            allocations = {who: {"resources": what} for who, what in held.get(provider.uuid, {}).items()}
            base = f"{URL}/resource_providers/{provider.uuid}"
            requests_mock.get(f"{base}/inventories", json={"inventories": INVENTORIES})
            requests_mock.get(f"{base}/allocations", json={"allocations": allocations})
        return truth.check(URL, providers, expected)

    return check


def test_all_is_well(look):
    found = look({"a": {"i": AMOUNTS, "j": AMOUNTS}}, {"i": ("a", AMOUNTS), "j": ("a", AMOUNTS)})
    assert (found.problems, found.consumers, found.resources) == ([], 2, 4)


@pytest.mark.parametrize(
    ("held", "expected", "problem"),
    [
        ({}, {"i": ("a", AMOUNTS)}, "i should hold"),
        ({"b": {"i": AMOUNTS}}, {"i": ("a", AMOUNTS)}, "i should hold"),
        ({"a": {"i": {"VCPU": 1}}}, {"i": ("a", AMOUNTS)}, "i should hold"),
        ({"a": {"i": AMOUNTS}, "b": {"i": AMOUNTS}}, {"i": ("a", AMOUNTS)}, "i should hold"),
        ({"b": {"x": AMOUNTS}}, {}, "Left over: x"),
        ({"a": {"i": {"VCPU": 5}}}, {"i": ("a", {"VCPU": 5})}, "a is over-committed: 5 of 4 VCPU"),
    ],
)
def test_what_is_wrong_is_found(look, held, expected, problem):
    (line,) = look(held, expected).problems
    assert problem in line
