"""A daemon with what kolla-ansible sets today for RabbitMQ: queue manager, quorum queues, a stream for fanouts."""

import pathlib
import uuid

import pytest

from conductor_client.client import SchedulerClient
from tests.integration.deployed import DeployedCloud
from tools.rig.load import ask, make_requests

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow, pytest.mark.timeout(300)]

QUEUES = """\
[oslo_messaging_rabbit]
rabbit_quorum_queue = true
rabbit_transient_quorum_queue = true
rabbit_stream_fanout = true
rabbit_qos_prefetch_count = 50
"""

#: Of the daemon alone: callers are in the process of the tests, whose group and name are pytest's.
QUEUE_MANAGER = """\
use_queue_manager = true
hostname = {name}
processname = nova-scheduler
[oslo_concurrency]
lock_path = {directory}
"""


#: What RabbitMQ says to one of two that declare the same stream at the same moment; it tries again.
OF_ANOTHER = ("(541) INTERNAL_ERROR", "does not have a replica on the local node")


class KollaCloud(DeployedCloud):
    """A cloud whose daemon has a queue manager."""

    def configure(self, *arguments, **options):
        path = super().configure(*arguments, **options, sections=QUEUES)
        self.name = uuid.uuid4().hex
        self.callback(self._remove_counters)
        with path.open("a") as file:
            file.write(QUEUE_MANAGER.format(name=self.name, directory=self.directory))
        return path

    def _remove_counters(self):
        for counter in pathlib.Path("/dev/shm").glob(f"{self.name}_*_qmanager"):
            counter.unlink()


def test_a_daemon_serves(tmp_path, rabbit):
    with KollaCloud(tmp_path, rabbit, 6, 2, conductors=False) as cloud:
        vhost = cloud.transport_url.rpartition("/")[2]
        client = SchedulerClient(cloud.bus, timeout=60)
        assert [ask(client, request).error for request in make_requests(10, 1)] == [""] * 10
        types = rabbit.queue_types(vhost)
        assert (types["scheduler"], types["scheduler_fanout"]) == ("quorum", "stream")
        log = cloud.scheduler.text()
        assert "Traceback" not in log
        errors = [line for line in log.splitlines() if " ERROR " in line]
        assert [line for line in errors if not any(words in line for words in OF_ANOTHER)] == []
