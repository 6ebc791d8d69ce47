import threading
from types import SimpleNamespace

import pytest

from scheduler.rpc import client


class LostConnection:
    """A connection on which nothing but reading works."""

    consumers = ()

    def __init__(self):
        self.read = threading.Event()

    def declare_direct_consumer(self, _name, _callback):
        pass

    def consume(self, timeout):
        self.read.wait(timeout)
        self.read.set()

    def close(self):
        pass


def test_calls_that_are_given_up_without_the_broker_do_not_keep_the_thread_from_reading(monkeypatch):
    """It connects again while it reads. It has many queues to delete then."""
    monkeypatch.setattr(client, "RETRY_INTERVAL", 60.0)
    monkeypatch.setattr(client, "QUEUE_TIMEOUT", 0.1)
    connection = LostConnection()
    caller = client.Client(SimpleNamespace(reader=lambda: connection))
    for _ in range(3):
        with pytest.raises(client.BrokerAway):
            caller._give_up(client._ReplyQueue("reply"), "call")
    caller.start()
    try:
        assert connection.read.wait(60.0)
    finally:
        caller.stop()


def test_a_call_is_given_up_in_time_though_its_scheduler_goes_on(monkeypatch):
    """It is not known whether the queue could be deleted; heartbeats still come from it."""
    monkeypatch.setattr(client, "QUEUE_TIMEOUT", 0.2)
    caller = client.Client(None)
    replies, ended = client._ReplyQueue("reply"), threading.Event()

    def beat():
        while not ended.wait(0.05):
            replies.received.put({"_msg_id": "call"})

    beating = threading.Thread(target=beat)
    beating.start()
    end = threading.Timer(5.0, replies.received.put, [None])
    end.start()
    try:
        with pytest.raises(client.BrokerAway):
            caller._give_up(replies, "call")
    finally:
        end.cancel()
        ended.set()
        beating.join()
