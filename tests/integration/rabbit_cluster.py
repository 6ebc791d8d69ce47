"""A RabbitMQ of three nodes on loopback, with and without TLS, whose nodes can be killed and started again."""

import contextlib
import pathlib
import tempfile
import uuid

from tests.integration import services
from tests.integration.certificates import make_certificates
from tests.support.waiting import eventually
from tools.rig import servers
from tools.rig.rabbit_members import ERLANG, NO_DELAY

#: None of those of single brokers: a cluster takes the one it finds free and the eight that follow.
PORTS = range(30000, 32000, 10)

CONFIGURATION = """\
listeners.ssl.default = 127.0.0.1:{tls_port}
ssl_options.cacertfile = {directory}/ca.pem
ssl_options.certfile = {directory}/server.pem
ssl_options.keyfile = {directory}/server.key
ssl_options.verify = verify_none
cluster_formation.peer_discovery_backend = classic_config
cluster_formation.classic_config.nodes.1 = berth-{first}@localhost
cluster_name = test
"""


class Cluster:
    """Three nodes.

    Attributes:
        nodes: The nodes.
        ca_file: The certificate authority of their certificates, which are for the name ``localhost`` only.
    """

    def __init__(self, directory):
        directory = pathlib.Path(directory)
        first = servers.free_port(PORTS)
        self.nodes = []
        for number in range(3):
            port = first + 2 * number  # the next one is that of TLS
            more = NO_DELAY + CONFIGURATION.format(tls_port=port + 1, directory=directory, first=first)
            node = servers.RabbitNode(directory / str(number), port, first + 6 + number, more, ERLANG)
            self.nodes.append(node)
        self.ca_file = str(directory / "ca.pem")
        make_certificates(directory)

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
        hosts = [f"{node.user}:{node.user}@127.0.0.1:{node.port + tls}" for node in nodes]
        return f"rabbit://{','.join(hosts)}/{vhost}"

    def vhost(self):
        """Make a virtual host and return its name once each node that runs lets clients in."""
        name = uuid.uuid4().hex
        running = [node for node in self.nodes if node.running]
        running[0].make_vhosts([name])
        # Nodes that have just joined may have missed it, and nothing would start it there later
        start = f'rabbit_vhost_sup_sup:start_on_all_nodes(<<"{name}">>).'
        alive = f'rabbit_vhost_sup_sup:is_vhost_alive(<<"{name}">>).'

        def serve():
            running[0].evaluate(start)
            return all(node.evaluate(alive) == "true" for node in running)

        assert eventually(serve, 30)
        return name

    def stop(self):
        for node in self.nodes:
            node.kill()


@contextlib.contextmanager
def rabbitmq_cluster():
    """Start three nodes."""
    services.need("rabbitmq-server")
    services.need("erl_call")
    with tempfile.TemporaryDirectory(prefix="berth-rabbit-", ignore_cleanup_errors=True) as directory:
        cluster = Cluster(directory)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
