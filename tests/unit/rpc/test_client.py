import itertools
import queue
from types import SimpleNamespace

import pytest

from scheduler.errors import ReturnedToBroker
from scheduler.rpc import client


def test_a_call_is_given_up_in_time_though_its_scheduler_goes_on(monkeypatch):
    """It is not known whether the queue could be deleted; heartbeats still come from it."""
    monkeypatch.setattr(client, "QUEUE_TIMEOUT", 0.05)
    beats = itertools.chain(itertools.repeat({"_msg_id": "call"}, 10_000_000), [None])

    def get(timeout):
        if not timeout:
            raise queue.Empty
        return next(beats)

    caller, replies = client.Client(None, lambda _task: None), client._ReplyQueue("reply")
    replies.received = SimpleNamespace(get=get)
    with pytest.raises(ReturnedToBroker):
        caller._give_up(replies, "call")


def test_reply_queues_are_made_before_the_first_call():
    """A queue that was just made is not read yet: its scheduler would keep the reply until it is."""
    tasks, made = [], []
    client.Client(None, tasks.append)
    for task in tasks:
        task(SimpleNamespace(declare_direct_consumer=lambda name, _callback: made.append(name)))
    assert len(set(made)) == client.SPARE
