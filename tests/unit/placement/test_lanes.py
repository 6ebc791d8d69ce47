import threading
from types import SimpleNamespace

import orjson
import pytest

from scheduler.claims.group_commit import LANES, MOST_IN_GROUP, ONE_LANE, GroupCommit
from scheduler.deadline import Deadline, limit_to
from scheduler.placement.errors import PlacementUnanswered, PlacementUnreachable
from scheduler.placement.reply import Reply
from tests.support.clock import Clock

DONE = Reply(204)


def error(status, detail, code=""):
    body = {"errors": [{"status": status, "code": code, "detail": detail}]}
    return Reply(status, orjson.dumps(body))


def body(provider):
    return {"allocations": {provider: {"resources": {"VCPU": 1}}}}


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
            assert self.gate.wait(10)
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

    def run(api, *writes):
        results = {}

        def call(name, write):
            try:
                results[name] = write(api)
            except PlacementUnreachable as problem:
                results[name] = f"unreachable: {problem}"
            except PlacementUnanswered as problem:
                results[name] = f"unanswered: {problem} {problem.timed_out}"

        threads = []
        for number, (name, write) in enumerate(writes):
            thread = threading.Thread(target=call, args=(name, write))
            thread.start()
            threads.append(thread)
            if number == 0:
                assert client.begun.wait(10)
            else:
                wait_for_queue(api, number)
        client.gate.set()
        for thread in threads:
            thread.join(10)
        return results

    return run


def wait_until(condition):
    for _ in range(1000):
        if condition():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it did not come true")


def wait_for_queue(api, number):
    wait_until(lambda: api.waiting >= number)


def put(uuid, provider=None):
    return uuid, lambda api: api.put_allocations(uuid, body(provider or uuid))


def post(*uuids):
    return uuids, lambda api: api.post_allocations({uuid: body(uuid) for uuid in uuids})


def test_a_write_that_need_not_wait_is_sent_alone_at_once(client):
    client.gate.set()
    assert GroupCommit(client).put_allocations("a", body("a")) is DONE
    assert client.sent == [("PUT", ["a"])]


def test_writes_that_wait_go_together(client, run):
    results = run(GroupCommit(client), put("a"), put("b"), put("c"), put("d"))
    assert client.sent == [("PUT", ["a"]), ("POST", ["b", "c", "d"])]
    assert results == dict.fromkeys("abcd", DONE)


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
        assert gate.wait(10)
        return DONE

    def begin(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments)
        thread.start()
        self._threads.append(thread)

    def wait_for(self, *sent):
        wait_until(lambda: len(self.sent) >= len(sent))
        assert self.sent == list(sent)

    def open(self, uuid):
        self._gates[uuid].set()

    def join(self):
        for thread in self._threads:
            thread.join(10)


@pytest.fixture
def held():
    return HeldClient()


def test_each_lane_has_a_write_in_flight(held):
    api = GroupCommit(held)
    held.begin(api.put_allocations, "1a", body("a"))
    held.wait_for(["1a"])
    held.begin(api.put_allocations, "9a", body("b"))
    held.wait_for(["1a"], ["9a"])
    held.begin(api.put_allocations, "8a", body("c"))
    wait_for_queue(api, 1)
    held.begin(api.put_allocations, "7a", body("d"))
    wait_for_queue(api, 2)
    held.open("9a")
    held.wait_for(["1a"], ["9a"], ["8a"])
    held.open("1a")
    held.wait_for(["1a"], ["9a"], ["8a"], ["7a"])
    for uuid in ("8a", "7a"):
        held.open(uuid)
    held.join()


def test_a_write_of_both_lanes_waits_for_both_and_is_not_overtaken(held):
    api = GroupCommit(held)
    held.begin(api.put_allocations, "1a", body("a"))
    held.wait_for(["1a"])
    held.begin(api.post_allocations, {"2a": body("b"), "9a": body("c")})
    wait_for_queue(api, 1)
    held.begin(api.put_allocations, "8a", body("d"))
    wait_for_queue(api, 2)
    held.wait_for(["1a"])
    held.open("1a")
    held.wait_for(["1a"], ["2a", "9a"])
    held.open("2a")
    held.wait_for(["1a"], ["2a", "9a"], ["8a"])
    held.open("8a")
    held.join()


def test_after_a_slow_write_beside_another_there_is_one_lane_for_some_minutes(held):
    clock = Clock(0.0)
    api = GroupCommit(held, clock=clock)
    held.begin(api.put_allocations, "1a", body("a"))
    held.wait_for(["1a"])
    held.begin(api.put_allocations, "9a", body("b"))
    held.wait_for(["1a"], ["9a"])
    clock.now += 1.1
    held.open("1a")
    wait_until(lambda: api.lanes == 1)
    held.begin(api.put_allocations, "1b", body("c"))
    wait_for_queue(api, 1)
    held.wait_for(["1a"], ["9a"])
    held.open("9a")
    held.wait_for(["1a"], ["9a"], ["1b"])
    held.open("1b")
    held.join()
    clock.now += ONE_LANE
    assert api.lanes == LANES


def test_consumers_of_a_group_are_sorted_by_provider(client, run):
    run(GroupCommit(client), put("a"), put("b", "p3"), put("c", "p1"), put("d", "p2"))
    assert client.sent == [("PUT", ["a"]), ("POST", ["c", "d", "b"])]


def test_a_group_has_a_greatest_size(client, run):
    names = [f"i{number}" for number in range(MOST_IN_GROUP + 3)]
    run(GroupCommit(client), *map(put, names))
    assert [len(uuids) for _, uuids in client.sent] == [1, MOST_IN_GROUP, 2]


def test_writes_of_several_consumers_stay_together_and_take_their_turn(client, run):
    results = run(GroupCommit(client), put("a"), post("b", "c"), put("d"), put("e"))
    assert client.sent == [("PUT", ["a"]), ("POST", ["b", "c"]), ("POST", ["d", "e"])]
    assert results["b", "c"] is DONE


def test_two_writes_of_one_consumer_are_not_in_one_group(client, run):
    run(GroupCommit(client), put("a"), put("b"), ("again", put("b")[1]))
    assert client.sent == [("PUT", ["a"]), ("PUT", ["b"]), ("PUT", ["b"])]


def test_a_refusal_concerns_the_consumer_that_it_names(client, run):
    full = error(409, "Unable to allocate inventory for 'VCPU' on resource provider 'c0c0'. Over capacity.")
    client.answer = lambda bodies: full if "c" in bodies else DONE
    results = run(GroupCommit(client), put("a"), put("b"), put("c", "c0c0"), put("d"))
    assert client.sent == [("PUT", ["a"]), ("POST", ["b", "c", "d"]), ("POST", ["b", "d"])]
    assert results == {"a": DONE, "b": DONE, "c": full, "d": DONE}


def test_a_refusal_that_names_no_consumer_sends_each_alone(client, run):
    invalid = error(400, "JSON does not validate: somewhere")
    client.answer = lambda bodies: invalid if "c" in bodies else DONE
    results = run(GroupCommit(client), put("a"), put("b"), put("c"), put("d"))
    assert [uuids for _, uuids in client.sent] == [["a"], ["b", "c", "d"], ["b"], ["c"], ["d"]]
    assert results == {"a": DONE, "b": DONE, "c": invalid, "d": DONE}


def test_many_refusals_end_the_group(client, run):
    full = error(409, "Unable to allocate inventory for 'VCPU' on resource provider 'f0'. Over capacity.")
    client.answer = lambda bodies: full if len(bodies) > 1 else DONE
    names = list("bcdef98")
    results = run(GroupCommit(client), put("a"), *(put(name, "f0") for name in names))
    assert [len(uuids) for _, uuids in client.sent] == [1, 7, 6, 5, 4, 1, 1, 1]
    assert [results[name] is full for name in names] == [False, False, False, True, True, True, True]


@pytest.mark.parametrize(
    "reply",
    [error(409, "update failed", "placement.concurrent_update"), Reply(503), error(403, "no")],
    ids=["concurrent update", "unknown", "denied"],
)
def test_a_response_that_concerns_all_is_given_to_all(client, run, reply):
    client.answer = lambda bodies: reply if len(bodies) > 1 else DONE
    results = run(GroupCommit(client), put("a"), put("b"), put("c"))
    assert results == {"a": DONE, "b": reply, "c": reply}


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (PlacementUnreachable("away"), "unreachable: away"),
        (PlacementUnanswered("late", timed_out=True), "unanswered: late True"),
    ],
    ids=["not sent", "no response"],
)
def test_an_error_is_raised_for_all(client, run, problem, expected):
    client.answer = lambda bodies: problem if len(bodies) > 1 else DONE
    results = run(GroupCommit(client), put("a"), put("b"), put("c"))
    assert results == {"a": DONE, "b": expected, "c": expected}


def test_a_write_that_waits_too_long_is_not_sent(client):
    api = GroupCommit(client, wait_timeout=0.01)
    first = threading.Thread(target=api.put_allocations, args=("a", body("a")))
    first.start()
    assert client.begun.wait(10)
    with pytest.raises(PlacementUnreachable, match="too many writes wait"):
        api.put_allocations("b", body("b"))
    client.gate.set()
    first.join(10)
    assert client.sent == [("PUT", ["a"])]


def test_a_write_waits_no_longer_than_the_caller_of_its_request(client):
    api = GroupCommit(client)
    first = threading.Thread(target=api.put_allocations, args=("a", body("a")))
    first.start()
    assert client.begun.wait(10)
    with limit_to(Deadline.after(0.0)), pytest.raises(PlacementUnreachable, match="too many writes wait"):
        api.put_allocations("b", body("b"))
    client.gate.set()
    first.join(10)
    assert client.sent == [("PUT", ["a"])]


def test_slow_writes_make_groups_smaller(client, run):
    clock = Clock()

    def answer(bodies):
        clock.now += 2 if len(bodies) > 1 else 0
        return DONE

    client.answer = answer
    names = [f"i{number}" for number in range(1 + MOST_IN_GROUP + 12)]
    run(GroupCommit(client, clock=clock), *map(put, names))
    assert [len(uuids) for _, uuids in client.sent] == [1, 20, 10, 2]


def test_an_unexpected_error_lets_the_next_write_be_sent(client):
    client.gate.set()
    api = GroupCommit(client)
    client.answer = lambda _bodies: ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        api.put_allocations("a", body("a"))
    client.answer = lambda _bodies: DONE
    assert api.put_allocations("b", body("b")) is DONE


def test_after_an_unexpected_error_of_the_sender_the_others_do_not_wait(client, run):
    client.answer = lambda bodies: ZeroDivisionError() if len(bodies) > 1 else DONE
    writes = [put("a"), put("b"), put("c")]

    def swallow(name, write):
        def call(api):
            try:
                return write(api)
            except ZeroDivisionError:
                return "failed"

        return name, call

    results = run(GroupCommit(client), *(swallow(*write) for write in writes))
    assert results == {
        "a": DONE,
        "b": "failed",
        "c": "unanswered: it is not known whether the write was sent False",
    }


def test_a_context_is_sent_along(client):
    client.gate.set()
    seen = []
    plain = client.write
    client.write = lambda *arguments, **options: seen.append(arguments[3]) or plain(*arguments, **options)
    context = SimpleNamespace(request_id="r")
    GroupCommit(client).put_allocations("a", body("a"), context)
    assert seen == [context]
