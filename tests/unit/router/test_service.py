from types import SimpleNamespace

import pytest

from scheduler import conf as options
from scheduler.errors import BerthError, ConfigError
from scheduler.request.past import Past
from scheduler.router import service
from scheduler.router.service import MOST_AT_ONCE, MOST_IN_FLIGHT, RouterService
from scheduler.rpc.client import ErrorReply
from scheduler.rpc.errors import RemoteError
from tests.support.calls import make_call

SECTION = "[berth_partition_a]\naggregates = a\n"


@pytest.fixture
def load(tmp_path):
    def load(text=SECTION):
        path = tmp_path / "nova.conf"
        path.write_text(f"[DEFAULT]\ntransport_url = rabbit://127.0.0.1:1/\nlong_rpc_timeout = 600\n{text}")
        return options.load(["--config-file", str(path)], "berth-router")

    return load


class Router:
    """Replies or raises what it is told to, and notes what it is asked."""

    def __init__(self, reply):
        self.reply, self.asked = reply, []

    def reply_to(self, message, patience, *, again):
        self.asked.append((message, patience, again))
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


@pytest.fixture
def ask(load):
    """Let a router answer a call; returns the reply or the error that is sent."""

    def ask(router, in_flight=0, **fields):
        made = RouterService(load())
        made.router = router
        for _ in range(in_flight):
            made.server.open_calls.add(make_call())
        call = make_call({"_context_user_id": "u", "_context_new_field": 1}, **fields)
        try:
            return made.select_destinations(call, spec_obj={"x": 1})
        except (BerthError, RemoteError) as error:
            return error

    return ask


@pytest.mark.parametrize(
    ("waited", "past", "again"),
    [(20.0, Past.NONE, True), (1.0, Past.REDELIVERED, True), (1.0, Past.NONE, False)],
    ids=["process was frozen", "delivered before", "new"],
)
def test_a_call_is_handed_on_as_it_is(ask, monkeypatch, waited, past, again):
    monkeypatch.setattr(service, "time", SimpleNamespace(monotonic=lambda: 100.0 + waited))
    router = Router([["host"]])
    assert ask(router, received=100.0, past=past) == [["host"]]
    message = {
        "method": "select_destinations",
        "args": {"spec_obj": {"x": 1}},
        "version": "4.5",
        "_context_user_id": "u",
        "_context_new_field": 1,
    }
    assert router.asked == [(message, 600.0 - waited, again)]


def test_an_error_is_replied_as_the_scheduler_has_sent_it(ask):
    failure = ErrorReply(
        "NoValidHost", "nova.exception", "No valid host was found.", {"code": 500, "final": True}
    )
    error = ask(Router(failure))
    assert (type(error).__name__, type(error).__module__) == ("NoValidHost", "nova.exception")
    assert (str(error), error.kwargs) == ("No valid host was found.", {"code": 500})


def test_beyond_the_bound_calls_are_answered_with_an_error(ask):
    router = Router([])
    assert ask(router, in_flight=MOST_IN_FLIGHT) == []
    error = ask(router, in_flight=MOST_IN_FLIGHT + 1)
    assert "rejects further ones" in str(error)
    assert error.nova_name == "CellTimeout"
    assert len(router.asked) == 1


def test_a_router_needs_a_partition(load):
    with pytest.raises(ConfigError, match="There is no partition"):
        RouterService(load(""))


def test_as_many_calls_are_handled_at_once_as_may_wait_for_a_partition(load):
    conf = load()
    made = RouterService(conf).server
    assert conf.executor_thread_pool_size == MOST_AT_ONCE
    assert (made.topic, made._methods.casts) == ("scheduler", {})
    conf = load(f"[DEFAULT]\nexecutor_thread_pool_size = 5\n{SECTION}")
    RouterService(conf)
    assert conf.executor_thread_pool_size == 5
