"""Requests over TLS."""

import contextlib
import io
import signal
import socket
import ssl
import threading

import pytest

from scheduler.operators import programs
from tests.integration.certificates import make_certificates
from tests.integration.rpc.conftest import Caller, Manager
from tests.support.daemon import Daemon

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow]

PATIENCE = 120


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


def test_the_check_before_the_swap_shows_the_broker_the_same_certificate_as_the_daemon(tmp_path):
    make_certificates(tmp_path)
    names = {name: str(tmp_path / name) for name in ("ca.pem", "server.pem", "server.key")}
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=names["ca.pem"])
    context.load_cert_chain(names["server.pem"], names["server.key"])
    context.verify_mode = ssl.CERT_REQUIRED
    seen = []

    def serve(listener):
        connection, _ = listener.accept()
        with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
            seen.append(secured.getpeercert()["subject"])

    path = tmp_path / "nova.conf"
    with socket.create_server(("localhost", 0)) as listener:
        path.write_text(
            f"[DEFAULT]\ntransport_url=rabbit://u:p@localhost:{listener.getsockname()[1]}/\n"
            f"[oslo_messaging_rabbit]\nssl=true\nssl_ca_file={names['ca.pem']}\n"
            f"ssl_cert_file={names['server.pem']}\nssl_key_file={names['server.key']}\n"
            f"[api_database]\nconnection=sqlite:///{tmp_path}/api.db\n"
            "[placement]\nauth_type=admin_token\nendpoint=http://127.0.0.1:1\ntoken=admin\n"
        )
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        argv = ["--config-file", str(path), "upgrade", "check"]
        programs.status(argv, stdout=io.StringIO(), stderr=io.StringIO())
        server.join(PATIENCE)
    assert seen == [((("commonName", "localhost"),),)]
