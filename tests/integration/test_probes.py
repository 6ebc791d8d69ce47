"""The probes of deployment tools, by their mechanism, for a daemon that is installed as nova-scheduler.

They find the processes by name and look for a connection to the broker: kolla by the command line (``pgrep -f``),
TripleO by the process name that ``ss`` shows, OpenStack-Helm by the process name, besides a ping over RPC.
"""

import os
import pathlib
import re
import socket
import subprocess
import sys
from urllib.parse import urlsplit

from oslo_context import context
import oslo_messaging as messaging
import psutil
import pytest

from scheduler import conf as options
from tests.integration.services import need
from tests.support.daemon import PROGRAM, Daemon
from tests.support.waiting import eventually

pytestmark = pytest.mark.rabbitmq

NAME = "nova-scheduler"

SCRIPT = """\
#!{python}
import sys
sys.path.insert(0, "{folder}")
import daemon_process
daemon_process.command.parts = daemon_process.parts
sys.exit(daemon_process.command.main())
"""


def install(directory):
    """Put the daemon there as pip does, with a symlink of the other name to it; return the symlink."""
    script = directory / "berth-scheduler"
    script.write_text(SCRIPT.format(python=sys.executable, folder=PROGRAM.parent))
    script.chmod(0o755)
    link = directory / NAME
    link.symlink_to(script.name)
    return link


@pytest.fixture(scope="module")
def url(rabbit):
    return rabbit.vhost()


@pytest.fixture(scope="module")
def port(url):
    return urlsplit(url).port


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("probes")


@pytest.fixture(scope="module")
def daemon(directory, url):
    text = f"[DEFAULT]\ntransport_url={url}\nhost={socket.gethostname()}\nlog_dir={directory}\nuse_stderr=false\n"
    daemon = Daemon(directory, text, {"TEST_RPC": "0", "PYTHONWARNINGS": "ignore"}, [str(install(directory))])
    daemon.expect("beat .*")
    yield daemon
    daemon.kill()


@pytest.fixture
def process(daemon):
    return psutil.Process(daemon.process.pid)


def established(process, port):
    """The connections of a process to a port."""
    connections = process.net_connections("tcp")
    return [
        each for each in connections if each.raddr and each.raddr[1] == port and each.status == "ESTABLISHED"
    ]


def test_the_process_has_the_name_and_its_command_line_too(process):
    assert process.name() == NAME
    assert pathlib.Path(f"/proc/{process.pid}/comm").read_text() == f"{NAME}\n"
    assert f"/{NAME} " in " ".join(process.cmdline())


def test_kolla_finds_a_connection_to_the_broker_by_command_lines(process, port):
    need("pgrep")
    need("ss")

    def healthy():
        found = subprocess.run(
            ["pgrep", "-f", NAME], capture_output=True, text=True, check=True
        ).stdout.split()
        sockets = subprocess.run(["ss", "-ntp"], capture_output=True, text=True, check=True).stdout
        return str(process.pid) in found and re.search(rf":{port}\b.*,pid={process.pid},", sockets)

    assert eventually(healthy)


def test_tripleo_finds_a_connection_to_the_broker_by_process_names(daemon, port):
    need("ss")

    def healthy():
        lines = subprocess.run(["ss", "-ntp"], capture_output=True, text=True, check=True).stdout.splitlines()
        return [line for line in lines if f":{port} " in line and f'"{NAME}"' in line]

    assert eventually(healthy)


def test_openstack_helm_finds_a_connection_to_the_broker_by_process_names(process, port):
    assert process.name() == NAME
    assert eventually(lambda: established(process, port))


def test_openstack_helm_pings_the_service_by_its_host_name(daemon, url):
    conf = options.load([], default_config_files=[])
    conf.set_override("transport_url", url)
    bus = messaging.get_rpc_transport(conf)
    target = messaging.Target(
        topic="scheduler", server=socket.gethostname(), namespace="baseapi", version="1.1"
    )
    client = messaging.get_rpc_client(bus, target, timeout=60)
    try:
        answer = client.call(context.RequestContext().to_dict(), "ping", arg=None)
    finally:
        bus.cleanup()
    assert answer == {"service": "scheduler", "arg": None}


def test_the_log_file_has_the_name(daemon, directory):
    assert eventually((directory / f"{NAME}.log").exists)
    assert "takes requests" in (directory / f"{NAME}.log").read_text()
    assert not (directory / "berth-scheduler.log").exists()


def test_usage_and_errors_have_the_name(directory, daemon):
    environment = {**os.environ, "COLUMNS": "200", "PYTHONWARNINGS": "ignore"}
    for arguments, text in ((["--help"], f"usage: {NAME} "), (["--config-file", "/absent"], f"{NAME}: ")):
        done = subprocess.run(
            [str(directory / NAME), *arguments], capture_output=True, text=True, check=False, env=environment
        )
        assert text in done.stdout + done.stderr, arguments
