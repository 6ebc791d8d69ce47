import pytest

from scheduler.placement.errors import QuestionRefused
from scheduler.placement.providers import (
    Inventory,
    list_path,
    read_generation,
    read_inventories,
    read_list,
    read_state,
    read_usage,
)
from scheduler.placement.reply import Reply
from tests.support.fake_placement import FakePlacement, FakeProvider

NODE = FakeProvider(
    "a/b",
    memory=0,
    inventories={"VCPU": {"total": 9, "reserved": 1, "allocation_ratio": 2.0, "step_size": 2}},
    used={"VCPU": 3},
    traits={"AVX"},
    aggregates={"zone"},
    generation=7,
)


@pytest.fixture
def client():
    return FakePlacement(NODE)


@pytest.mark.parametrize(
    ("conditions", "path"),
    [
        ({}, "/resource_providers"),
        ({"required": ["B", "A"]}, "/resource_providers?required=A%2CB"),
        (
            {"amounts": {"VCPU": 2, "MEMORY_MB": 1}, "member_of": ["y", "x"]},
            "/resource_providers?member_of=in%3Ax%2Cy&resources=MEMORY_MB%3A1%2CVCPU%3A2",
        ),
    ],
    ids=["all", "traits", "amounts and aggregates"],
)
def test_equal_conditions_have_equal_paths(conditions, path):
    assert list_path(**conditions) == path


def test_all_that_a_provider_has(client):
    state = read_state(client, "a/b")
    assert (state.uuid, state.generation, state.used) == ("a/b", 7, {"VCPU": 3})
    assert (state.traits, state.aggregates) == ({"AVX"}, {"zone"})
    assert (state.inventories["VCPU"].capacity, state.inventories["VCPU"].step_size) == (16, 2)
    (usage,) = read_usage(client, "a/b").values()
    assert (usage.capacity, usage.used, read_generation(client, "a/b")) == (16, 3, 7)


def test_a_provider_that_changes_while_it_is_read_has_its_oldest_generation(client):
    node = FakeProvider("n")
    client = FakePlacement(node)
    client.before = lambda path: node.change() if path.endswith("usages") else None
    assert read_state(client, "n").generation == 1


def test_a_provider_that_does_not_exist_has_nothing(client):
    assert (read_state(client, "z"), read_generation(client, "z")) == (None, None)
    assert (read_inventories(client, "z"), read_usage(client, "z")) == ({}, {})


@pytest.mark.parametrize("reply", [Reply(503, b""), Reply(200, b"[]")], ids=["error", "another shape"])
@pytest.mark.parametrize("read", [read_inventories, read_generation, read_state])
def test_an_error_is_named(client, read, reply):
    for what in ("", "/inventories"):
        client.failures[f"/resource_providers/a%2Fb{what}"] = reply
    with pytest.raises(QuestionRefused, match="Placement"):
        read(client, "a/b")
    assert read_usage(client, "a/b") == {}


def test_a_list_that_is_refused(client):
    client.failures["/resource_providers"] = Reply(400, b"")
    with pytest.raises(QuestionRefused):
        read_list(client, "/resource_providers")


@pytest.mark.parametrize(
    ("amount", "admitted"), [(3, False), (4, True), (5, False), (8, True), (10, False)], ids=str
)
def test_unit_limits(amount, admitted):
    assert Inventory(total=99, min_unit=4, max_unit=8, step_size=2).admits(amount) is admitted
