"""Clouds of the scenarios: what they start ends with them."""

import sys

import pytest

from tools.rig import cluster
from tools.rig.servers import Server
from tools.rig.world import RunningWorld, World


class Silent(Server):
    """A server that does not answer in time."""

    def start(self):
        """Start it, and wait in vain."""
        super().start()
        self.wait_until(lambda: False, "It does not answer", timeout=0)


class SilentCloud(RunningWorld):
    """A cloud with such a server."""

    def _start(self):
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        self.server = Silent(command, self.directory / "log")
        cluster.start(self, self.server)


def test_a_server_that_does_not_answer_is_ended(tmp_path):
    cloud = SilentCloud(World(), tmp_path)
    with pytest.raises(RuntimeError, match="It does not answer"), cloud:
        pass
    assert not cloud.server.running
