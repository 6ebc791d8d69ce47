import subprocess
import sys

import pytest

from scheduler.placement.errors import QuestionRefused
from scheduler.placement.providers import (
    READINGS,
    STATE,
    Inventory,
    list_path,
    read_list,
    read_provider,
    read_usage,
)
from scheduler.placement.reply import Reply
from tests.support.placement import Placement, make_node
from tools.rig.service import ROOT

NODE = make_node(
    "a/b",
    inventories={"VCPU": {"total": 9, "reserved": 1, "allocation_ratio": 2.0, "step_size": 2}},
    used={"VCPU": 3},
    traits={"AVX"},
    aggregates={"zone"},
    generation=7,
)


@pytest.fixture
def client():
    return Placement(NODE)


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
    state = read_provider(client, "a/b", *STATE)
    assert (state.uuid, state.generation, state.used) == ("a/b", 7, {"VCPU": 3})
    assert (state.traits, state.aggregates) == ({"AVX"}, {"zone"})
    assert (state.inventories["VCPU"].capacity, state.inventories["VCPU"].step_size) == (16, 2)
    (usage,) = read_usage(client, "a/b").values()
    assert (usage.capacity, usage.used) == (16, 3)


def test_a_provider_that_changes_while_it_is_read_has_its_oldest_generation(client):
    node = make_node("n")
    client = Placement(node)
    client.before = lambda path: node.change() if path.endswith("usages") else None
    assert read_provider(client, "n", *STATE).generation == 1


def test_a_provider_that_does_not_exist_has_nothing(client):
    assert (read_provider(client, "z", *STATE), read_usage(client, "z")) == (None, {})


@pytest.mark.parametrize("reply", [Reply(503, b""), Reply(200, b"[]")], ids=["error", "another shape"])
@pytest.mark.parametrize("what", READINGS)
def test_an_error_is_named(client, what, reply):
    for failing in (what, "inventories"):
        client.failures[f"/resource_providers/a%2Fb/{failing}"] = reply
    with pytest.raises(QuestionRefused, match="Placement"):
        read_provider(client, "a/b", what)
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


@pytest.mark.slow
def test_many_threads_read_a_provider_at_once_in_a_new_process():
    """In a process of its own, which a crash ends; the module is loaded again so that its types are new."""
    program = """
import importlib, json, sys, threading
from types import SimpleNamespace
from scheduler.placement import providers

PARTS = {"inventories": {"VCPU": {"total": 4}}, "usages": {"VCPU": 1}, "traits": ["A"], "aggregates": ["b"]}
body = json.dumps({**PARTS, "resource_provider_generation": 3}).encode()
client = SimpleNamespace(get=lambda *_arguments, **_options: SimpleNamespace(status=200, body=body))
sys.setswitchinterval(1e-6)
for _ in range(300):
    importlib.reload(providers)
    begin, found = threading.Barrier(6), []

    def read():
        begin.wait()
        found.append(providers.read_provider(client, "p", *providers.STATE).generation)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [3] * 6
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=ROOT, check=False, timeout=100)
    assert done.returncode == 0
