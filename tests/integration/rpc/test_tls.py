"""Requests over TLS."""

import signal

import pytest

from tests.integration.certificates import make_certificates
from tests.integration.rpc.conftest import Caller, Manager
from tests.support.daemon import Daemon

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow]

PATIENCE = 30


@pytest.fixture
def vhost(cluster):
    return cluster.vhost()


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
