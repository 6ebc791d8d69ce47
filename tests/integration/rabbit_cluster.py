"""A RabbitMQ of three nodes on loopback, with and without TLS, whose nodes can be killed and started again."""

import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import uuid

from amqp.exceptions import AMQPError
from kombu import Connection

from tests.integration import services
from tests.integration.certificates import make_certificates
from tools.rig import servers

#: None of those of single brokers: a cluster takes the one it finds free and the eight that follow.
PORTS = range(30000, 32000, 10)
START_TIMEOUT = 200
USER = PASSWORD = "test"

CONFIGURATION = """\
listeners.tcp.default = 127.0.0.1:{port}
listeners.ssl.default = 127.0.0.1:{tls_port}
ssl_options.cacertfile = {directory}/ca.pem
ssl_options.certfile = {directory}/server.pem
ssl_options.keyfile = {directory}/server.key
ssl_options.verify = verify_none
default_user = {user}
default_pass = {password}
cluster_formation.peer_discovery_backend = classic_config
cluster_formation.randomized_startup_delay_range.min = 0
cluster_formation.randomized_startup_delay_range.max = 1
cluster_name = test
"""

#: One scheduler thread a node: three nodes share few processors.
ERLANG = "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none"


class Node:
    """One node; ``stop`` and ``start`` keep its data.

    Attributes:
        port: Its TCP port.
        tls_port: Its TCP port with TLS.
    """

    def __init__(self, directory, number, port):
        self.name = f"berth-{port}@localhost"
        # below the ports that the system gives to clients
        self.port, self.tls_port, self.dist_port = port, port + 1, port + 6 - number
        self._directory = directory / str(number)
        self._directory.mkdir()
        self._process = None

    def configure(self, directory, first):
        text = CONFIGURATION.format(
            port=self.port, tls_port=self.tls_port, directory=directory, user=USER, password=PASSWORD
        )
        text += f"cluster_formation.classic_config.nodes.1 = {first.name}\n"
        (self._directory / "rabbitmq.conf").write_text(text)

    @property
    def environment(self):
        home = str(self._directory.parent)  # of the cookie, which all nodes share
        return {
            **os.environ,
            "PATH": servers.path_of_servers(),
            "HOME": home,
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_DIST_PORT": str(self.dist_port),
            "RABBITMQ_CONFIG_FILE": str(self._directory / "rabbitmq.conf"),
            "RABBITMQ_MNESIA_BASE": str(self._directory),
            "RABBITMQ_LOG_BASE": str(self._directory),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._directory / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ERLANG,
        }

    def start(self):
        """Begin to start; see ``wait``."""
        with (self._directory / "out").open("a") as output:
            self._process = subprocess.Popen(
                ["rabbitmq-server"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait(self):
        """Wait until clients can log in."""
        url = f"amqp://{USER}:{PASSWORD}@127.0.0.1:{self.port}//"
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, AMQPError), Connection(url, connect_timeout=5) as connection:
                connection.transport.establish_connection().close()
                return
            assert self._process.poll() is None, (self._directory / "out").read_text()
            time.sleep(0.1)
        raise AssertionError(f"{self.name} does not start")

    def kill(self):
        """Kill the node at once; its data stays."""
        if self._process:
            servers.signal_tree(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


class Cluster:
    """Three nodes.

    Attributes:
        nodes: The nodes.
        ca_file: The certificate authority of their certificates, which are for the name ``localhost`` only.
    """

    def __init__(self, directory):
        directory = pathlib.Path(directory)
        port = servers.free_port(PORTS)
        self.nodes = [Node(directory, number, port + 2 * number) for number in range(3)]
        self.ca_file = str(directory / "ca.pem")
        make_certificates(directory)
        for node in self.nodes:
            node.configure(directory, self.nodes[0])

    def start(self):
        first, *others = self.nodes
        first.start()
        first.wait()
        for node in others:
            node.start()
        for node in others:
            node.wait()

    def url(self, *numbers, tls=False, vhost="/"):
        """Return the transport URL of some of the nodes, all by default."""
        nodes = [self.nodes[number] for number in numbers or range(3)]
        hosts = [f"{USER}:{PASSWORD}@127.0.0.1:{node.tls_port if tls else node.port}" for node in nodes]
        return f"rabbit://{','.join(hosts)}/{vhost}"

    def vhost(self):
        """Make a virtual host and return its name."""
        name = uuid.uuid4().hex
        self.control("add_vhost", name)
        self.control("set_permissions", "-p", name, USER, ".*", ".*", ".*")
        return name

    def control(self, *command):
        """Run rabbitmqctl on the first node that runs."""
        node = next(node for node in self.nodes if node._process)
        subprocess.run(["rabbitmqctl", "-q", *command], env=node.environment, check=True, capture_output=True)

    def stop(self):
        for node in self.nodes:
            node.kill()


@contextlib.contextmanager
def rabbitmq_cluster():
    """Start three nodes."""
    services.need("rabbitmq-server")
    with tempfile.TemporaryDirectory(prefix="berth-rabbit-", ignore_cleanup_errors=True) as directory:
        cluster = Cluster(directory)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
