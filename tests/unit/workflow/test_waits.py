"""Each place where a request waits says what it waits for."""

from contextlib import contextmanager, nullcontext
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from scheduler.bounds.keystone_access import guarded
from scheduler.bounds.outages import Outages
from scheduler.bounds.waits import Waits
from scheduler.errors import HostsUnknown, PlacementUnavailable
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.nova_db.api_reader import ApiReader
from scheduler.nova_db.cells import Cell
from scheduler.nova_db.host_reader import HostReader
from scheduler.nova_db.host_store import HostStore
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.placement.batching import BatchedCalls
from scheduler.placement.client import PlacementClient
from scheduler.placement.write_policy import Timing
from scheduler.placement.write_queue import WriteQueue
from scheduler.selection.server_groups import ServerGroups
from tests.builders import make_table
from tests.support.waiting import eventually
from tests.unit.placement.test_write_queue import DONE, unit
from tests.unit.selection.requests import FakeClaims
from tests.unit.selection.test_host_claiming import claiming_in, two_hosts
from tests.unit.selection.test_server_groups import UUID, FakeSource, spec

CELLS = [Cell(number, f"u{number}", f"cell{number}", None, True) for number in (1, 2)]


class Held:
    """What another thread holds until the test has looked: whoever calls it waits."""

    def __init__(self):
        self.gate = threading.Event()
        self.entered = threading.Event()

    def __call__(self, *_args, **_options):
        self.entered.set()
        assert self.gate.wait(30)

    @contextmanager
    def by_another(self, call, *args):
        """Let another request be in ``call``, which holds what the request of the test waits for."""
        other = threading.Thread(target=call, args=args)
        other.start()
        assert self.entered.wait(30)
        yield
        self.gate.set()
        other.join()


def noted(call, *args, held):
    """What is noted of a request while it waits in a call."""
    waits = Waits()

    def run():
        with waits:
            call(*args)

    request = threading.Thread(target=run)
    request.start()
    assert eventually(lambda: waits.current)
    text = waits.current.text
    held.gate.set()
    request.join()
    assert waits.current is None
    return text


@pytest.fixture
def held():
    held = Held()
    yield held
    held.gate.set()


def test_a_server_group(held):
    groups = ServerGroups()

    def serve(work):
        with groups.serialized(spec(), FakeSource()):
            work()

    with held.by_another(serve, held):
        assert noted(serve, lambda: None, held=held) == f"its turn in server group {UUID}"


def test_an_equal_query(held):
    calls = BatchedCalls(30.0, 1)
    texts = ["its turn to query Placement", "an equal query of another request"]
    with held.by_another(calls.call, "one", held):
        waits = [Waits(), Waits()]

        def ask(own):
            with own:
                calls.call("another", lambda: None)

        threads = []
        for number, own in enumerate(waits):
            threads.append(threading.Thread(target=ask, args=(own,)))
            threads[-1].start()
            assert eventually(lambda number=number: calls.waiting("another") == number + 1)
            assert eventually(lambda own=own: own.current)
        assert [own.current.text for own in waits] == texts
    for thread in threads:
        thread.join()


def test_the_write_queue(held):
    def post(_units, _context):
        held()
        return DONE

    queue = WriteQueue(post, 30.0)
    with held.by_another(queue.send, [unit({"a": "p"})]):
        text = "its turn in the queue of writes to Placement"
        assert noted(queue.send, [unit({"b": "p"})], held=held) == text


def test_placement(held):
    def request(*_args, **_options):
        held()
        return SimpleNamespace(status_code=200, headers={}, iter_content=lambda _size: [b"{}"])

    client = PlacementClient(SimpleNamespace(request=request))
    path = "/allocation_candidates?resources=VCPU%3A1"
    assert noted(client.get, path, "1.36", held=held) == "Placement (GET /allocation_candidates)"


def test_another_attempt(held):
    text = "the next attempt of a write to Placement"
    assert noted(Timing(sleep=held).pause, 5.0, held=held) == text


def test_keystone(held):
    breaker = SimpleNamespace(open_reason=None, guard=lambda *_away: nullcontext())
    assert noted(guarded(held, breaker), None, held=held) == "a token of Keystone"


def test_cells(held):
    calls, waits = CellCalls(lambda: 30.0), Waits()
    answers = {"cell1": lambda: None, "cell2": held}

    def read():
        with waits:
            calls.scatter_gather(CELLS, lambda cell: answers[cell.name]())

    request = threading.Thread(target=read)
    request.start()
    assert eventually(lambda: waits.current and waits.current.text == "the database of cell cell2")
    held.gate.set()
    request.join()


def test_the_host_table(held):
    reader = SimpleNamespace(
        timeout=lambda: 10.0, read=held, next_table=lambda last: HostTable((), {}, (), read_at=float("inf"))
    )
    partition = SimpleNamespace(all_aggregates=())
    store = HostStore(reader, partition, lambda: 0.0)
    store.start()
    assert noted(store.snapshot, held=held) == "a new host table"
    store.stop()


def test_the_list_of_cells(held):
    def load():
        held()
        raise OSError

    api = ApiReader(None, SimpleNamespace(load=load), None)
    with held.by_another(api.read):
        assert noted(api.read, held=held) == "the API database"


def test_cells_that_are_read_again(held):
    calls = SimpleNamespace(left_out=lambda cell: "no answer", scatter_gather=held)
    reader = HostReader(SimpleNamespace(all=CELLS), calls, None, None, unread_max_age=lambda: 0.0)
    with held.by_another(reader.reread, CELLS):
        assert noted(reader.reread, CELLS, held=held) == "another request that reads cells again"


def test_the_turn_to_choose(held):
    pending, table = PendingPlacements(), make_table(two_hosts())

    def choose(uuid, wait):
        candidates = [host.candidates for host in two_hosts()]
        view = HostView.of(table, np.arange(2), candidates, None, pending)
        claiming_in(view, FakeClaims(), is_mapped=lambda _host: wait() or True)[1].plan(uuid)

    with held.by_another(choose, "i1", held):
        text = "its turn among requests that choose a host"
        assert noted(choose, "i2", lambda: None, held=held) == text


@pytest.mark.parametrize(
    ("error", "found", "text"),
    [
        (PlacementUnavailable("no connection"), True, "Placement, which is unavailable"),
        (HostsUnknown(CELLS[:1]), False, "The database of cell1 (u1), which did not answer"),
    ],
    ids=["outage", "one failure"],
)
def test_a_dependency(error, found, text):
    def attempt(_request):
        raise error

    request = SimpleNamespace(
        deadline=float("inf"),
        received_at=0.0,
        is_rebuild=False,
        call=None,
        restarted=lambda: request,
    )
    looks, texts = [], []

    def find(_suspect):
        looks.append(error)
        return error if found else None

    def wait(_condition, _seconds):
        texts.append(waits.current.text)
        outages.stop()

    outages = Outages(find, lambda: 60.0, lambda: False, wait=wait)
    outages.start()
    assert eventually(lambda: len(looks) > 1) if found else outages.wait_until_able(30)
    waits = Waits()
    with waits, pytest.raises(Exception, match="stopping"):
        outages.run(attempt, request)
    assert texts[-1] == text
