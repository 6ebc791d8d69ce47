"""What ``scheduler.rpc.client`` takes for granted of oslo.messaging and amqp."""

import inspect

from amqp.channel import Channel
from oslo_messaging._drivers import common, impl_rabbit
import pytest


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (impl_rabbit.Connection, ["consume", "declare_direct_consumer", "channel"]),
        (Channel, ["queue_delete"]),
        (common, ["serialize_msg", "PURPOSE_LISTEN", "PURPOSE_SEND", "Timeout"]),
    ],
    ids=["Connection", "Channel", "common"],
)
def test_the_names_that_are_used_exist(owner, names):
    assert [
        name
        for name in names
        if not hasattr(owner, name) and f"self.{name} =" not in inspect.getsource(owner)
    ] == []


def test_a_consumer_of_a_queue_that_is_deleted_can_be_told_quietly():
    assert "self.cancel_callbacks" in inspect.getsource(Channel.__init__)
    assert "self.cancel_callbacks.pop" in inspect.getsource(Channel._remove_tag)
