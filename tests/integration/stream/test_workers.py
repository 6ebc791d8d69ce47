"""Workers of a real daemon, with a real RabbitMQ and Placement: schedulers that share their decisions."""

from concurrent.futures import ThreadPoolExecutor
import uuid

import pytest

from conductor_client.client import SchedulerClient
from scheduler.stream.broker import QUEUE
from scheduler.stream.decision_stream import AVAILABLE, UNAVAILABLE
from tests.integration.deployed import DeployedCloud
from tests.integration.stream.schedulers import PATIENCE
from tests.support.waiting import eventually
from tests.unit.conductor_client.doubles import context, make_spec

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow]

REQUESTS = 12
WORKERS = 3


@pytest.fixture
def cloud(tmp_path, rabbit):
    with DeployedCloud(tmp_path, rabbit, hosts=12, cells=1, conductors=False, workers=WORKERS) as started:
        yield started


def place(cloud):
    """The hosts of single builds that are asked for at once."""
    client = SchedulerClient(cloud.bus, timeout=PATIENCE)

    def one(_number):
        return client.select_destinations(context(), make_spec(), [str(uuid.uuid4())])[0][0].service_host

    with ThreadPoolExecutor(REQUESTS) as pool:
        return list(pool.map(one, range(REQUESTS)))


def test_workers_answer_all_requests_and_tell_each_other(cloud, rabbit):
    cloud.scheduler.wait_for_line("All workers take requests")
    assert cloud.scheduler.text().count("Read the decision stream in") == WORKERS
    assert f"schedulers: {WORKERS}" in cloud.scheduler.text()
    assert len(place(cloud)) == REQUESTS
    vhost = cloud.transport_url.rpartition("/")[2]
    # at least an intent or a claim of each request; several may share a message
    assert eventually(lambda: rabbit.messages(vhost, QUEUE) >= REQUESTS, PATIENCE)
    assert cloud.stop_processes() == [("scheduler", 0)]
    # RabbitMQ may answer an internal error to one of those that declare the stream at the same time
    interrupted, ended = (cloud.scheduler.text().count(text) for text in (UNAVAILABLE, AVAILABLE))
    assert interrupted == ended
    assert "Traceback" not in cloud.scheduler.text()
