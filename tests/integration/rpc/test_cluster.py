"""Requests over TLS, and over a RabbitMQ of three nodes one of which is killed."""

import collections
import signal

import psutil
import pytest

from tests.integration.rabbit_cluster import make_certificates
from tests.integration.rpc.conftest import Caller, Manager
from tests.support.daemon import Daemon
from tests.support.waiting import eventually

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow]

PATIENCE = 30


@pytest.fixture
def vhost(cluster):
    return cluster.vhost()


def busiest(cluster):
    """The node to which most connections of this process lead."""
    found = psutil.Process().net_connections("tcp")
    ports = collections.Counter(each.raddr.port for each in found if each.raddr)
    return max(cluster.nodes, key=lambda node: ports[node.port])


class TestTls:
    @pytest.fixture
    def url(self, cluster, vhost):
        return cluster.url(0, tls=True, vhost=vhost).replace("127.0.0.1", "localhost")

    def test_calls_are_answered_if_the_authority_is_known(self, conf, cluster, request):
        conf.set_override("ssl", True, "oslo_messaging_rabbit")
        conf.set_override("ssl_ca_file", cluster.ca_file, "oslo_messaging_rabbit")
        manager = Manager()
        request.getfixturevalue("serve")(manager)
        caller = Caller(request.getfixturevalue("bus"))
        caller.join(PATIENCE)
        assert caller.reply == []

    def test_an_unknown_authority_is_one_line_for_each_attempt_and_the_daemon_can_be_stopped(
        self, url, tmp_path
    ):
        make_certificates(tmp_path)
        rabbit = f"[oslo_messaging_rabbit]\nssl=true\nssl_ca_file={tmp_path}/ca.pem\n"
        daemon = Daemon(tmp_path, f"[DEFAULT]\ntransport_url={url}\n{rabbit}", {"TEST_RPC": "0"})
        try:
            daemon.expect_log("certificate verify failed")
            daemon.signal(signal.SIGTERM)
            assert daemon.end()[0] == 0
            log = daemon.errors.read_text()
            failed = [line for line in log.splitlines() if "certificate" in line]
            assert all("Connection failed: " in line for line in failed), failed
            assert "Traceback" not in log
        finally:
            daemon.kill()


class TestFailOver:
    @pytest.fixture
    def url(self, cluster, vhost):
        return cluster.url(vhost=vhost)

    def test_every_call_is_answered_after_the_node_of_the_connection_is_killed(
        self, conf, cluster, serve, bus
    ):
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
