"""Real services for tests: private ones, on loopback, on ports of their own, gone afterwards.

Where a service is not installed its tests are skipped; with CI set in the environment they fail.
"""

import contextlib
import os
import random
import shutil
import socket
import subprocess
import uuid

import pytest

# Erlang's own port is this one plus 20000.
RABBIT_PORTS = range(21000, 29000)


def need(command, *places):
    """Skip the test, or fail it in CI, unless the command is on PATH or in one of these directories."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", *places])
    if shutil.which(command, path=path):
        return
    if os.environ.get("CI"):
        pytest.fail(f"{command} is not installed")
    pytest.skip(f"{command} is not installed")


def free_port(ports):
    """A port out of these on which nobody listens."""
    while True:
        port = random.choice(ports)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port


class Rabbit:
    """A running RabbitMQ; tests keep apart by virtual hosts."""

    def __init__(self, driver, node):
        self._driver = driver
        self._node = node

    @property
    def environment(self):
        """The environment in which rabbitmqctl talks to this node."""
        path = os.pathsep.join([*self._driver._path, os.environ.get("PATH", "")])
        return {**self._driver.env, "RABBITMQ_NODENAME": self._node, "PATH": path}

    def vhosts(self):
        """Return the names of all virtual hosts."""
        return sorted(self._list("list_vhosts", "name"))

    def queues(self, vhost):
        """Return the names of the queues of a virtual host."""
        return self._list("list_queues", "-p", vhost, "name")

    def _list(self, *command):
        done = subprocess.run(
            ["rabbitmqctl", "-q", "--no-table-headers", *command],
            env={**os.environ, **self.environment},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.split()

    def vhost(self, name=None):
        """Make a virtual host; returns its transport URL."""
        name = name or uuid.uuid4().hex
        user = self._driver.username
        self._driver.rabbitmqctl(self._node, ["add_vhost", name])
        self._driver.rabbitmqctl(self._node, ["set_permissions", "-p", name, user, ".*", ".*", ".*"])
        return f"rabbit://{user}:{self._driver.password}@127.0.0.1:{self._driver.port}/{name}"

    def evaluate(self, expression):
        """Let the broker evaluate an Erlang expression."""
        self._driver.rabbitmqctl(self._node, ["eval", expression])

    def close_connections(self):
        """Close all connections of clients."""
        self._driver.rabbitmqctl(self._node, ["close_all_connections", "test"])


@contextlib.contextmanager
def rabbitmq():
    """Start a RabbitMQ."""
    need("rabbitmq-server", "/usr/lib/rabbitmq/bin")
    from pifpaf.drivers.rabbitmq import RabbitMQDriver

    port = free_port(RABBIT_PORTS)
    nodename = f"berth-{port}"
    with RabbitMQDriver(port=port, nodename=nodename) as driver:
        yield Rabbit(driver, f"{nodename}@localhost")
