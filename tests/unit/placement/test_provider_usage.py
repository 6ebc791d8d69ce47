from types import SimpleNamespace

import pytest

from scheduler.placement.provider_usage import read_inventories, read_usage, read_used
from scheduler.placement.questions import QuestionRefused
from scheduler.placement.reply import Reply

INVENTORIES = b'{"inventories": {"VCPU": {"total": 9, "reserved": 1, "allocation_ratio": 2.0}}}'
USAGES = b'{"usages": {"VCPU": 3}}'


def client(status=200):
    def get(path, _version, _context):
        return Reply(status, INVENTORIES if path == "/resource_providers/a%2Fb/inventories" else USAGES)

    return SimpleNamespace(get=get)


def test_what_a_provider_has_and_what_is_used_of_it():
    (usage,) = read_usage(client(), "a/b").values()
    assert (usage.capacity, usage.used, read_used(client(), "a/b")) == (16, 3, {"VCPU": 3})


def test_a_provider_that_does_not_exist_has_nothing():
    gone = client(404)
    assert (read_inventories(gone, "a/b"), read_used(gone, "a/b"), read_usage(gone, "a/b")) == ({}, None, {})


@pytest.mark.parametrize("read", [read_inventories, read_used])
def test_an_error_is_told_with_what_placement_says(read):
    with pytest.raises(QuestionRefused, match="Placement answers 503"):
        read(client(503), "a/b")
    assert read_usage(client(503), "a/b") == {}
