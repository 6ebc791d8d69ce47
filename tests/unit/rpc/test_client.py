import threading

import pytest

from scheduler.errors import ReturnedToBroker
from scheduler.rpc import client


def test_a_call_is_given_up_in_time_though_its_scheduler_goes_on(monkeypatch):
    """It is not known whether the queue could be deleted; heartbeats still come from it."""
    monkeypatch.setattr(client, "QUEUE_TIMEOUT", 0.2)
    caller = client.Client(None, lambda _task: None)
    replies, ended = client._ReplyQueue("reply"), threading.Event()

    def beat():
        while not ended.wait(0.05):
            replies.received.put({"_msg_id": "call"})

    beating = threading.Thread(target=beat)
    beating.start()
    end = threading.Timer(5.0, replies.received.put, [None])
    end.start()
    try:
        with pytest.raises(ReturnedToBroker):
            caller._give_up(replies, "call")
    finally:
        end.cancel()
        ended.set()
        beating.join()
