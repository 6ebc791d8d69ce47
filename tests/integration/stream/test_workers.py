"""Workers of a real daemon, with a real RabbitMQ and Placement: schedulers that share their decisions."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
import uuid

import pytest

from conductor_client.client import SchedulerClient
from scheduler.stream.decision_stream import AVAILABLE, UNAVAILABLE
from tests.integration.deployed import DeployedCloud
from tests.integration.stream.schedulers import PATIENCE, broker_of
from tests.unit.conductor_client.doubles import context, make_spec
from tools.side_by_side.counting import STREAM, StreamCounter

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


def test_workers_answer_all_requests_and_tell_each_other(cloud):
    cloud.scheduler.wait_for_line("All workers take requests")
    assert cloud.scheduler.text().count("Read the decision stream in") == WORKERS
    assert f"schedulers: {WORKERS}" in cloud.scheduler.text()
    written = StreamCounter(partial(broker_of(cloud.transport_url).connect, "counter"))
    written.start()
    assert len(place(cloud)) == REQUESTS
    assert cloud.stop_processes() == [("scheduler", 0)]
    assert written.stop()[f"{STREAM}intent"] >= REQUESTS
    # RabbitMQ may answer an internal error to one of those that declare the stream at the same time
    interrupted, ended = (cloud.scheduler.text().count(text) for text in (UNAVAILABLE, AVAILABLE))
    assert interrupted == ended
    assert "Traceback" not in cloud.scheduler.text()
