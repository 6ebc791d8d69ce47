"""Questions over the bus: who may ask, which schedulers answer, and how failures are told."""

import threading
from types import SimpleNamespace
import uuid

from oslo_serialization import jsonutils
import pytest

from scheduler import conf as configuration
from scheduler.errors import InvalidRequest
from scheduler.rpc import explain, transport
from scheduler.rpc.serializer import ObjectSerializer
from tests.support.calls import make_call
from tools.rig import memory_bus

TIMEOUT = 20


class Memory:
    """A scheduler that knows one decision; ``asked`` is what it was asked last."""

    def __init__(self, known):
        self.known = known
        self.asked = None

    @property
    def answers(self):
        questions = ("decision", "decisions", "host_history", "waiting")
        return {question: getattr(self, question) for question in questions}

    def decision(self, name):
        self.asked = name
        return "a document" if name == self.known else None

    def host_history(self, host, since=0):
        raise InvalidRequest("first line\nsecond line")

    def decisions(self, **wanted):
        self.asked = wanted
        return [{"name": self.known}]

    def waiting(self):
        return [{"request_id": self.known}]


@pytest.fixture(scope="module")
def schedulers():
    """The transport, and the memories of the schedulers of two hosts that listen on it."""
    conf = configuration.new()
    conf([], default_config_files=[])
    conf.set_override("transport_url", "fake://")
    conf.set_override("control_exchange", uuid.uuid4().hex)
    bus = transport.rpc_transport(conf)
    memories = [Memory("req-0"), Memory("req-1")]
    servers = []
    for host, memory in zip(("ctl", "ctl2"), memories, strict=True):
        methods = explain.methods(memory.answers)
        servers.append(memory_bus.serve(methods, bus, host, explain.TOPIC, explain.VERSION))
    for server in servers:
        server.start()
    yield bus, memories
    for server in servers:
        server.stop()
    for server in servers:
        server.wait()


def ask(method, arguments, *, is_admin=True, memory=None):
    """Call a method; returns its result, or the name of the error that is sent."""
    frame = {
        "method": method,
        "args": written(arguments),
        "version": explain.VERSION,
        "_context_is_admin": is_admin,
    }
    answer = explain.methods((memory or Memory("req-0")).answers).call(make_call(frame))
    return jsonutils.loads(answer.failure)["class"] if answer.failure else answer.result


def written(arguments):
    return ObjectSerializer().serialize_entity(None, arguments)


def test_the_schedulers_of_all_hosts_are_asked(schedulers):
    answers = explain.Schedulers(schedulers[0], ["ctl", "ctl", "ctl2"], TIMEOUT).ask("decision", name="req-1")
    assert answers.found == {"ctl": None, "ctl2": "a document"}
    assert answers.failed == {}


def test_answers_are_in_the_order_of_the_hosts_however_they_come(monkeypatch):
    second_has_answered = threading.Event()

    def call(host, name):
        if host in {"a", "b"}:
            assert second_has_answered.wait(TIMEOUT)
        elif host == "d":
            second_has_answered.set()
        if host in {"b", "d"}:
            raise InvalidRequest(name)
        return name

    class Calling:
        def prepare(self, server):
            return SimpleNamespace(call=lambda _context, _method, name: call(server, name))

    monkeypatch.setattr(explain.messaging, "get_rpc_client", lambda *_args, **_options: Calling())
    answers = explain.Schedulers(None, "abcd", TIMEOUT).ask("decision", name="req-0")
    assert [list(answers.found), list(answers.failed)] == [["a", "c"], ["b", "d"]]


def test_arguments_reach_the_schedulers(schedulers):
    bus, memories = schedulers
    explain.Schedulers(bus, ["ctl", "ctl2"], TIMEOUT).ask(
        "decisions", failed=True, since=5.5, project="p", at_most=3
    )
    wanted = {"failed": True, "since": 5.5, "project": "p", "at_most": 3}
    assert [memory.asked for memory in memories] == [wanted, wanted]


def test_all_schedulers_are_asked_for_their_requests_in_progress(schedulers):
    answers = explain.Schedulers(schedulers[0], ["ctl", "ctl2"], TIMEOUT).ask("waiting")
    assert answers.found == {"ctl": [{"request_id": "req-0"}], "ctl2": [{"request_id": "req-1"}]}


def test_what_a_scheduler_raises_is_one_line(schedulers):
    answers = explain.Schedulers(schedulers[0], ["ctl"], TIMEOUT).ask("host_history", host="broken")
    assert answers.found == {}
    assert answers.failed["ctl"].startswith("Invalid: first line")
    assert "\n" not in answers.failed["ctl"]


def test_a_scheduler_that_does_not_answer_is_told_after_the_timeout(schedulers):
    answers = explain.Schedulers(schedulers[0], ["ctl", "away"], 0.5).ask("decision", name="req-0")
    assert answers.failed == {"away": "no answer within 0.5 seconds"}
    assert answers.found["ctl"] == "a document"


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("decision", {"name": "req-0"}),
        ("decisions", {}),
        ("waiting", {}),
    ],
)
def test_only_administrators_are_answered(method, arguments):
    assert ask(method, arguments, is_admin=False) == "AdminRequired"
    assert ask(method, arguments)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("decision", {"name": ""}),
        ("decisions", {"at_most": "all"}),
        ("decisions", {"at_most": True}),
        ("decisions", {"since": -1}),
        ("decisions", {"since": float("nan")}),
        ("decisions", {"project": 5}),
        ("host_history", {"host": None}),
        ("host_history", {}),
        ("waiting", {"name": "req-0"}),
        ("waiting", {"question": "decisions"}),
    ],
)
def test_wrong_arguments_are_refused(method, arguments):
    assert ask(method, arguments) == "Invalid"


def test_counts_are_bounded():
    memory = Memory("req-0")
    ask("decisions", {"at_most": 10**9}, memory=memory)
    assert memory.asked["at_most"] == explain.MOST_ENTRIES
