import threading
from types import SimpleNamespace

import orjson
import pytest

from scheduler.bounds.deadline import Deadline, limit_to
from scheduler.placement import write_queue
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.allocations import Owner
from scheduler.placement.errors import PlacementUnanswered, PlacementUnreachable
from scheduler.placement.outcomes import Outcome, Refusal
from scheduler.placement.reply import Reply
from scheduler.placement.write_policy import Timing, WritePolicy
from scheduler.placement.write_queue import MOST_TOGETHER, _QueuedWrite
from scheduler.placement.writes import Unit, Write
from tests.support.clock import Clock
from tests.support.waiting import eventually

DONE = Reply(204)


def error(status, detail, code=""):
    body = {"errors": [{"status": status, "code": code, "detail": detail}]}
    return Reply(status, orjson.dumps(body))


def unit(places):
    """Return what is carried out together: ``places`` has the provider of each consumer."""
    writes = {
        uuid: Write({provider: {"resources": {"VCPU": 1}}}, Owner("project", "user"))
        for uuid, provider in places.items()
    }
    return Unit(writes)


def make(client, queue_timeout=30.0, clock=Clock(0.0), **more):  # noqa: B008 - it does not move
    """Return the queue of a writer."""
    return AllocationWriter(client, WritePolicy(queue_timeout=queue_timeout), Timing(clock), **more).queue


def send(queue, *units, context=None):
    """Send units; return the response of each, by the names of its consumers."""
    queue.send(units, context)
    return {tuple(one.writes): one.reply or one.error for one in units}


class FakeClient:
    """Writes down what is sent, and holds back the first write until ``gate`` opens."""

    def __init__(self):
        self.sent = []
        self.gate = threading.Event()
        self.begun = threading.Event()
        self.answer = lambda _bodies: DONE

    def write(self, method, path, version, context=None, body=None):
        bodies = orjson.loads(body)
        uuids = [path.rpartition("/")[2]] if method == "PUT" else list(bodies)
        self.sent.append((method, uuids))
        if not self.begun.is_set():
            self.begun.set()
            assert self.gate.wait(60)
        answer = self.answer({path.rpartition("/")[2]: bodies} if method == "PUT" else bodies)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def client():
    return FakeClient()


@pytest.fixture
def run(client):
    """Start writes of instances one after the other, the first of which waits in Placement; then all results."""

    def run(queue, *calls):
        results = {}

        def call(units):
            try:
                results.update(send(queue, *units))
            except ZeroDivisionError:
                results["failed"] = True

        threads = []
        for number, units in enumerate(calls):
            thread = threading.Thread(target=call, args=(units,))
            thread.start()
            threads.append(thread)
            if number == 0:
                assert client.begun.wait(60)
            else:
                wait_for_queue(queue, number)
        client.gate.set()
        for thread in threads:
            thread.join(60)
        return results

    return run


def wait_for_queue(queue, number):
    assert eventually(lambda: queue.waiting >= number)


def put(uuid, provider=None):
    """A call for one consumer."""
    return [unit({uuid: provider or uuid})]


def post(*uuids):
    """A call for several consumers, all or none."""
    return [unit({uuid: uuid for uuid in uuids})]


def batch(*uuids):
    """A call for several consumers, each with an outcome of its own."""
    return [unit({uuid: uuid}) for uuid in uuids]


def of(results, uuid):
    return results[uuid,]


def test_a_write_that_need_not_wait_is_sent_alone_at_once(client):
    client.gate.set()
    assert send(make(client), *put("a")) == {("a",): DONE}
    assert client.sent == [("PUT", ["a"])]


@pytest.mark.parametrize(
    ("calls", "sent"),
    [
        ([put("b"), put("c"), put("d")], [("POST", ["b", "c", "d"])]),
        ([put("b", "p"), put("c", "p")], [("POST", ["b", "c"])]),
        ([put("b", "p3"), put("c", "p1"), put("d", "p2")], [("POST", ["c", "d", "b"])]),
        ([post("b", "c"), put("d", "d0")], [("POST", ["b", "c", "d"])]),
        ([batch("b", "c"), put("d")], [("POST", ["b", "c", "d"])]),
        ([put("b"), put("b")], [("PUT", ["b"]), ("PUT", ["b"])]),
    ],
    ids=["several", "of one provider", "sorted by provider", "all or none", "a batch", "of one consumer"],
)
def test_writes_that_wait_go_together(client, run, calls, sent):
    results = run(make(client), put("a", "p"), *calls)
    assert client.sent == [("PUT", ["a"]), *sent]
    assert results.keys() == {("a",), *(tuple(one.writes) for units in calls for one in units)}
    assert set(results.values()) == {DONE}


class HeldClient:
    """Holds back each write until ``open`` is called with its first consumer."""

    def __init__(self):
        self.sent = []
        self._gates = {}
        self._threads = []

    def write(self, _method, path, _version, _context=None, body=None):
        uuids = list(orjson.loads(body)) if path == "/allocations" else [path.rpartition("/")[2]]
        self._gates[uuids[0]] = gate = threading.Event()
        self.sent.append(uuids)
        assert gate.wait(60)
        return DONE

    def begin(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments)
        thread.start()
        self._threads.append(thread)

    def wait_for(self, *sent):
        assert eventually(lambda: len(self.sent) >= len(sent))
        assert self.sent == list(sent)

    def open(self, uuid):
        self._gates[uuid].set()

    def join(self):
        for thread in self._threads:
            thread.join(60)


@pytest.fixture
def held():
    return HeldClient()


def test_one_write_is_in_flight_at_a_time(held):
    queue = make(held)
    held.begin(send, queue, *put("1a", "a"))
    held.wait_for(["1a"])
    for number, uuid in enumerate(["9a", "2a"], 1):
        held.begin(send, queue, *put(uuid, uuid))
        wait_for_queue(queue, number)
    held.wait_for(["1a"])
    held.open("1a")
    held.wait_for(["1a"], ["2a", "9a"])  # in the order of their providers
    held.open("2a")
    held.join()


@pytest.mark.parametrize("seconds", [0, 2])
def test_a_group_has_a_greatest_size_however_slow_placement_is(client, run, seconds):
    clock = Clock()
    client.answer = lambda _bodies: setattr(clock, "now", clock.now + seconds) or DONE
    names = [f"i{number}" for number in range(1 + MOST_TOGETHER + 12)]
    run(make(client, clock=clock), *map(put, names))
    assert [len(uuids) for _, uuids in client.sent] == [1, MOST_TOGETHER, 12]


def test_a_refusal_concerns_the_consumer_that_it_names(client, run):
    full = error(409, "Unable to allocate inventory for 'VCPU' on resource provider 'c0c0'. Over capacity.")
    client.answer = lambda bodies: full if "c" in bodies else DONE
    results = run(make(client), put("a"), put("b"), put("c", "c0c0"), put("d"))
    assert client.sent == [("PUT", ["a"]), ("POST", ["b", "c", "d"]), ("POST", ["b", "d"])]
    assert results == {("a",): DONE, ("b",): DONE, ("c",): full, ("d",): DONE}


@pytest.mark.parametrize(("room", "fit"), [(12, "b"), (24, "bc"), (7, ""), (20, "bc"), (40, "bcd")])
def test_of_writes_that_do_not_fit_together_the_largest_are_refused(client, run, room, fit):
    sizes = {"b": 8, "d": 20, "c": 10}
    full = error(409, "Unable to allocate inventory for 'VCPU' on resource provider 'f0'. Over capacity.")
    taken = []

    def answer(bodies):
        wanted = [sizes.get(uuid, 0) for uuid in bodies]
        if sum(taken) + sum(wanted) > room:
            return full
        taken.extend(wanted)
        return DONE

    client.answer = answer
    calls = [put(uuid, "f0") for uuid in sizes]
    for (one,), (uuid, size) in zip(calls, sizes.items(), strict=True):
        one.writes[uuid].allocations["f0"]["resources"]["VCPU"] = size
    results = run(make(client), put("a"), *calls)
    assert "".join(uuid for uuid in "bcd" if of(results, uuid) is DONE) == fit


def test_a_write_is_not_sent_again_without_others_once_it_is_not_wanted(client):
    stopping = []
    full = error(409, "Unable to allocate inventory for 'VCPU' on resource provider 'f0'. Over capacity.")
    client.gate.set()
    client.answer = lambda _bodies: stopping.append(Refusal(Outcome.STOPPING, "it stops")) or full
    units = [unit({uuid: "f0"}) for uuid in "bc"]
    for one in units:
        one.refusal = lambda: next(iter(stopping), None)
    make(client).send(units)
    assert [uuids for _, uuids in client.sent] == [["b", "c"]]
    assert sorted(str(one.error) for one in units) == ["None", "it stops"]


def test_a_refusal_that_names_no_consumer_is_found_by_halves(client, run):
    invalid = error(400, "JSON does not validate: somewhere")
    client.answer = lambda bodies: invalid if "c" in bodies else DONE
    results = run(make(client), put("a"), put("b"), put("c"), put("d"))
    assert [uuids for _, uuids in client.sent] == [["a"], ["b", "c", "d"], ["b", "c"], ["b"], ["c"], ["d"]]
    assert results == {("a",): DONE, ("b",): DONE, ("c",): invalid, ("d",): DONE}


def test_many_refusals_end_the_group(client, run):
    full = error(409, "Unable to allocate inventory for 'VCPU' on resource provider 'f0'. Over capacity.")
    client.answer = lambda bodies: full if len(bodies) > 1 else DONE
    names = list("bcdef98")
    results = run(make(client), put("a"), *(put(name, "f0") for name in names))
    assert [len(uuids) for _, uuids in client.sent] == [1, 7, 6, 5, 4, 1, 1, 1]
    assert [of(results, name) is full for name in names] == [False] * 3 + [True] * 4


def test_after_many_refusals_what_came_meanwhile_is_sent_first(client):
    """A few full providers must not keep the claims of others from being sent."""
    full = error(409, "Unable to allocate inventory for 'VCPU' on resource provider 'f0'. Over capacity.")
    queue, threads, answered = make(client), [], []

    def begin(uuid, provider):
        def call():
            send(queue, *put(uuid, provider))
            answered.append(uuid)

        threads.append(threading.Thread(target=call))
        threads[-1].start()

    def answer(bodies):
        if len(bodies) == 6:
            begin("late", "p")
            wait_for_queue(queue, 1)
        if len(bodies) == 5:
            assert eventually(lambda: "g" in answered)  # it has its outcome before the group has ended
        return full if len(bodies) > 1 else DONE

    client.answer = answer
    begin("a", "a")
    assert client.begun.wait(60)
    for number, name in enumerate("bcdefg", 1):
        begin(name, "f0")
        wait_for_queue(queue, number)
    client.gate.set()
    assert eventually(lambda: len(answered) == 8)
    for thread in threads:
        thread.join(60)
    assert [len(uuids) for _, uuids in client.sent] == [1, 6, 5, 4, 3, 1, 1, 1]
    assert client.sent[5] == ("PUT", ["late"])


@pytest.mark.parametrize(
    "answer",
    [
        error(409, "update failed", "placement.concurrent_update"),
        Reply(503),
        error(403, "no"),
        PlacementUnreachable("away"),
        PlacementUnanswered("late", timed_out=True),
    ],
    ids=["concurrent update", "unknown", "denied", "not sent", "no response"],
)
def test_what_concerns_all_is_given_to_all(client, run, answer):
    def told(result):
        return result if isinstance(result, Reply) else (type(result), str(result), vars(result))

    client.answer = lambda bodies: answer if len(bodies) > 1 else DONE
    results = run(make(client), put("a"), put("b"), put("c"))
    assert [told(of(results, uuid)) for uuid in "abc"] == [DONE, told(answer), told(answer)]


def test_a_write_that_is_not_wanted_any_more_when_it_is_its_turn_is_not_sent(client):
    lanes, late, stopping = make(client), [unit({"b": "1"})], []
    late[0].refusal = lambda: next(iter(stopping), None)
    threads = [
        threading.Thread(target=lanes.send, args=([unit({"a": "1"})],)),
        threading.Thread(target=lanes.send, args=(late,)),
    ]
    threads[0].start()
    assert client.begun.wait(30)
    threads[1].start()
    wait_for_queue(lanes, 1)
    stopping.append(Refusal(Outcome.STOPPING, "the scheduler is stopping"))
    client.gate.set()
    for thread in threads:
        thread.join(30)
    assert client.sent == [("PUT", ["a"])]
    assert (type(late[0].error), str(late[0].error)) == (PlacementUnreachable, "the scheduler is stopping")


@pytest.mark.parametrize(
    ("queue_timeout", "deadline"), [(0.01, 60.0), (30.0, 0.0)], ids=["for the queue", "for its caller"]
)
def test_a_write_that_waits_too_long_is_not_sent(client, queue_timeout, deadline):
    api = make(client, queue_timeout=queue_timeout)
    first = threading.Thread(target=send, args=(api, *put("a")))
    first.start()
    assert client.begun.wait(60)
    with limit_to(Deadline.after(deadline)):
        (error,) = send(api, *put("b")).values()
    assert (type(error), str(error)) == (PlacementUnreachable, "too many writes wait for Placement")
    client.gate.set()
    first.join(60)
    assert client.sent == [("PUT", ["a"])]


def test_a_call_that_is_refused_often_lets_others_go_first_and_goes_on_where_it_was(client):
    """A request for many instances on nearly full hosts must not keep the claims of others from being sent."""
    full = error(409, "Over capacity, of what is not said.")
    bad = {f"i{number}" for number in range(0, 20, 2)}
    client.answer = lambda bodies: full if bad & bodies.keys() else DONE
    queue, many = make(client), [unit({f"i{number}": f"p{number:02}"}) for number in range(20)]
    threads = [threading.Thread(target=send, args=(queue, *many))]
    threads[0].start()
    assert client.begun.wait(60)
    threads.append(threading.Thread(target=send, args=(queue, *put("late"))))
    threads[1].start()
    wait_for_queue(queue, 1)
    client.gate.set()
    for thread in threads:
        thread.join(60)
    assert [len(uuids) for _, uuids in client.sent[:6]] == [20, 10, 5, 3, 1, 2]
    assert client.sent[4] == ("PUT", ["late"])
    assert [one.reply is full for one in many] == [True, False] * 10


def test_the_wait_for_a_sender_that_hangs_ends(client, monkeypatch):
    monkeypatch.setattr(write_queue, "LONGEST_TURN", 0)
    with pytest.raises(TimeoutError):
        make(client, queue_timeout=0.0)._wait(_QueuedWrite(put("taken out of the queue"), None))


def test_an_unexpected_error_lets_the_next_write_be_sent(client):
    client.gate.set()
    api = make(client)
    client.answer = lambda _bodies: ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        send(api, *put("a"))
    client.answer = lambda _bodies: DONE
    assert send(api, *put("b")) == {("b",): DONE}


def test_after_an_unexpected_error_of_the_sender_the_others_do_not_wait(client, run):
    client.answer = lambda bodies: ZeroDivisionError() if len(bodies) > 1 else DONE
    results = run(make(client), put("a"), put("b"), put("c"))
    assert (of(results, "a"), results["failed"]) == (DONE, True)
    assert str(of(results, "c")) == "it is not known whether the write was sent"


def test_after_a_missing_provider_the_others_are_sent_as_consumers_with_a_record(client):
    """Placement has made a record of each."""
    sent = []

    def write(method, path, version, context=None, body=None):
        bodies = orjson.loads(body) if method == "POST" else {"b": orjson.loads(body)}
        sent.append({uuid: one["consumer_generation"] for uuid, one in bodies.items()})
        gone = error(400, "Allocation for resource provider 'dead' that does not exist.")
        return gone if len(bodies) > 1 else DONE

    client.write = write
    a, b = unit({"a": "dead"}), unit({"b": "beef"})
    assert send(make(client), a, b)["b",] is DONE
    assert sent == [{"b": None, "a": None}, {"b": 0}]
    assert a.generations == {"a": 0}


def test_a_context_is_sent_along(client):
    client.gate.set()
    seen = []
    plain = client.write
    client.write = lambda *arguments, **options: seen.append(arguments[3]) or plain(*arguments, **options)
    context = SimpleNamespace(request_id="r")
    send(make(client), *put("a"), context=context)
    assert seen == [context]
