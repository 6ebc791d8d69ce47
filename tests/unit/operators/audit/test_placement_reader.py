import pytest

from scheduler.operators.audit.readers import PlacementReader
from scheduler.placement.errors import PlacementError
from scheduler.placement.providers import ListedProvider
from scheduler.placement.reply import Reply

PROVIDER = ListedProvider("p", 0, "p", "compute-1")
EMPTY = Reply(200, b'{"resource_provider_generation": 1, "allocations": {}, "usages": {}, "inventories": {}}')


class Client:
    """Answers a path with what ``answer`` returns for it."""

    def __init__(self, answer):
        self.answer = answer
        self.paths = []

    def get(self, path, version, context=None, *, search=False):
        self.paths.append(path)
        return self.answer(path)


@pytest.fixture
def reader():
    readers = []

    def make(answer):
        readers.append(PlacementReader(Client(answer), 1))
        return readers[-1]

    yield make
    for one in readers:
        one.close()


def test_the_capacity_is_an_integer_as_placement_counts_it(reader):
    body = b"""{"resource_provider_generation": 1, "allocations": {}, "usages": {},
        "inventories": {"VCPU": {"total": 7, "reserved": 2, "allocation_ratio": 1.5}}}"""
    (state,) = reader(lambda path: Reply(200, body)).states([PROVIDER])
    assert state.capacity == {"VCPU": 7}


def test_a_generation_that_changed_between_allocations_and_usages_is_told(reader):
    def answer(path):
        return EMPTY if path.endswith("allocations") else Reply(200, EMPTY.body.replace(b"1", b"2"))

    (state,) = reader(answer).states([PROVIDER])
    assert not state.consistent


def test_a_provider_that_is_gone_is_no_error(reader):
    assert reader(lambda path: Reply(404)).states([PROVIDER]) == [None]


@pytest.mark.parametrize(
    "reply",
    [Reply(200, b"<html>proxy</html>"), Reply(200, b'{"allocations": 3}'), Reply(503, b"busy")],
    ids=["html", "other form", "503"],
)
def test_an_answer_that_is_not_understood_is_an_error(reader, reply):
    with pytest.raises(PlacementError):
        reader(lambda path: reply).states([PROVIDER])


def test_the_list_of_providers_must_be_understood(reader):
    with pytest.raises(PlacementError):
        reader(lambda path: Reply(200, b"{}")).providers()
