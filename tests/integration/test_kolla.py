"""A daemon with what kolla-ansible sets today for RabbitMQ: queue manager, quorum queues, a stream for fanouts."""

import pathlib
import uuid

import pytest

from conductor_client.client import SchedulerClient
from tools.rig.load import ask, make_requests
from tools.rig.world import Daemon, RunningWorld, World

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow, pytest.mark.timeout(300)]

QUEUES = """\
rabbit_quorum_queue = true
rabbit_transient_quorum_queue = true
rabbit_stream_fanout = true
rabbit_qos_prefetch_count = 50
"""

#: Of the daemon alone: callers are in the process of the tests, whose group and name are pytest's.
QUEUE_MANAGER = """\
[oslo_messaging_rabbit]
use_queue_manager = true
hostname = {name}
processname = nova-scheduler
[oslo_concurrency]
lock_path = {directory}
"""


#: What RabbitMQ says to one of two that declare the same stream at the same moment; it tries again.
OF_ANOTHER = ("(541) INTERNAL_ERROR", "does not have a replica on the local node")


@pytest.fixture
def name():
    """The name of the machine, of which nothing is left."""
    name = uuid.uuid4().hex
    yield name
    for counter in pathlib.Path("/dev/shm").glob(f"{name}_*_qmanager"):
        counter.unlink()


def test_a_daemon_serves(tmp_path, rabbit, name):
    daemon = Daemon(options=QUEUE_MANAGER.format(name=name, directory=tmp_path))
    with RunningWorld(World(6, queues=QUEUES, daemons=(daemon,)), tmp_path, rabbit) as cloud:
        client = SchedulerClient(cloud.bus, timeout=60)
        assert [ask(client, request).error for request in make_requests(10, 1)] == [""] * 10
        types = rabbit.queue_types(cloud.vhost)
        assert (types["scheduler"], types["scheduler_fanout"]) == ("quorum", "stream")
        log = cloud.scheduler.text()
        assert "Traceback" not in log
        errors = [line for line in log.splitlines() if " ERROR " in line]
        assert [line for line in errors if not any(words in line for words in OF_ANOTHER)] == []
