"""Requests and callers, with a scheduler that answers at once."""

import itertools
import random
import threading

from oslo_messaging import MessagingTimeout, RemoteError
import pytest

from scheduler.errors import NoValidHost
from tools.rig.load import FLAVORS, BootRequest, Callers, Flavor, ask, random_requests

REQUEST = BootRequest(["i"], FLAVORS[0])


class Scheduler:
    """Answers each request in turn with one of these: selections, or an exception."""

    def __init__(self, *answers):
        self.answers = itertools.cycle(answers or (["a host"],))
        self.asked = []
        self.lock = threading.Lock()

    def select_destinations(self, context, spec, uuids, **_flags):
        with self.lock:
            self.asked.append((context.project_id, spec, uuids))
            answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("answer", "error", "unanswered"),
    [
        (["a host"], "", False),
        (NoValidHost("none"), "NoValidHost", False),
        (RemoteError("Boom", "why"), "Boom: why", False),
        (MessagingTimeout(), "MessagingTimeout", True),
    ],
    ids=["hosts", "no host", "an error", "no answer"],
)
def test_a_call_knows_what_became_of_it(answer, error, unanswered):
    call = ask(Scheduler(answer), REQUEST)
    assert (call.error, call.unanswered, bool(call.selections)) == (error, unanswered, not error)
    assert 0 <= call.seconds < float("inf")


def test_all_requests_are_sent_by_some_callers_each_once():
    requests = list(itertools.islice(random_requests(random.Random(1)), 50))
    scheduler, ended = Scheduler(), []
    with Callers(scheduler, requests, 3, after=ended.append) as callers:
        callers.wait()
    assert sorted(uuids for _, _, uuids in scheduler.asked) == sorted(each.uuids for each in requests)
    assert len(ended) == len(callers.calls) == 50
    assert not callers.running


def test_requests_without_an_end_are_sent_until_the_callers_are_stopped():
    enough, after = threading.Event(), itertools.count()
    with Callers(
        Scheduler(), random_requests(random.Random(1)), 2, after=lambda _: next(after) < 20 or enough.set()
    ) as callers:
        assert enough.wait(60)
    assert all(call.ended for call in callers.calls)


def test_no_request_is_sent_once_the_time_is_over():
    with Callers(Scheduler(), random_requests(random.Random(1)), 2, seconds=0) as callers:
        callers.wait()
    assert callers.calls == []


def test_what_breaks_in_a_caller_is_raised_in_the_end():
    def fail(_call):
        raise LookupError

    with pytest.raises(LookupError), Callers(Scheduler(), [REQUEST], 1, after=fail) as callers:
        callers.wait()


def test_requests_are_determined_by_the_generator():
    first, second = (list(itertools.islice(random_requests(random.Random(7), (1, 3)), 30)) for _ in range(2))
    assert first == second
    assert {len(each.uuids) for each in first} == {1, 3}


def test_a_flavor_with_numa_nodes_asks_for_a_topology():
    wide = Flavor(1, "wide", 4, 4096, 10, (("hw:numa_nodes", "2"),))
    spec = BootRequest(["i"], wide, project="p").spec()
    assert (len(spec.numa_topology.cells), spec.flavor.extra_specs) == (2, {"hw:numa_nodes": "2"})
    assert (spec.project_id, REQUEST.spec().numa_topology) == ("p", None)
