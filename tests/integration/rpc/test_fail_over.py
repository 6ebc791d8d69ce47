"""Calls over a RabbitMQ of three nodes, one of which is killed."""

import collections

import psutil
import pytest

from tests.integration.rpc.conftest import Caller, Manager
from tests.support.waiting import eventually

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow]

PATIENCE = 120


@pytest.fixture
def url(cluster):
    return cluster.url(vhost=cluster.vhost())


def busiest(cluster):
    """The node to which most connections of this process lead."""
    found = psutil.Process().net_connections("tcp")
    ports = collections.Counter(each.raddr.port for each in found if each.raddr)
    return max(cluster.nodes, key=lambda node: ports[node.port])


def test_every_call_is_answered_after_the_node_of_the_connection_is_killed(conf, cluster, serve, bus):
    """Also if the time for a reply, of one second here, is over before another node takes it."""
    for option in ("rabbit_quorum_queue", "rabbit_transient_quorum_queue"):
        conf.set_override(option, True, "oslo_messaging_rabbit")
    managers = [Manager(), Manager()]
    for manager in managers:
        manager.may_answer.clear()
        serve(manager)
    callers = [Caller(bus) for _ in range(20)]
    assert eventually(lambda: sum(len(manager.ends) for manager in managers) == 20, PATIENCE)
    node = busiest(cluster)
    node.kill()
    try:
        callers += [Caller(bus) for _ in range(20)]
        for manager in managers:
            manager.may_answer.set()
        for caller in callers:
            caller.join(PATIENCE)
        assert [caller.reply for caller in callers] == [[]] * 40
    finally:
        node.start()
        node.wait()
