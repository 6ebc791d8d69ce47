"""Real daemons, with a real RabbitMQ and Placement: schedulers that share their decisions."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
import uuid

import pytest

from conductor_client.client import SchedulerClient
from scheduler.stream.decision_stream import AVAILABLE, UNAVAILABLE
from tests.integration.stream.schedulers import PATIENCE, broker_of
from tests.unit.conductor_client.doubles import context, make_spec
from tools.rig.world import Daemon, RunningWorld, World
from tools.side_by_side.counting import STREAM, StreamCounter

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow]

REQUESTS = 12
DAEMONS = 3


@pytest.fixture
def cloud(tmp_path, rabbit):
    daemons = tuple(Daemon(f"controller{number}") for number in range(DAEMONS))
    with RunningWorld(World(cells=1, daemons=daemons), tmp_path, rabbit) as started:
        yield started


def place(cloud):
    """The hosts of single builds that are asked for at once."""
    client = SchedulerClient(cloud.bus, timeout=PATIENCE)

    def one(_number):
        return client.select_destinations(context(), make_spec(), [str(uuid.uuid4())])[0][0].service_host

    with ThreadPoolExecutor(REQUESTS) as pool:
        return list(pool.map(one, range(REQUESTS)))


def test_daemons_answer_all_requests_and_tell_each_other(cloud):
    assert f"schedulers: {DAEMONS}" in "".join(each.text() for each in cloud.schedulers)
    written = StreamCounter(partial(broker_of(cloud.callers_bus).connect, "counter"))
    written.start()
    assert len(place(cloud)) == REQUESTS
    assert {status for _, status in cloud.stop_processes()} == {0}
    assert written.stop()[f"{STREAM}intent"] >= REQUESTS
    for process in cloud.schedulers:
        # RabbitMQ may answer an internal error to one of those that declare the stream at the same time
        interrupted, ended = (process.text().count(text) for text in (UNAVAILABLE, AVAILABLE))
        assert interrupted == ended
        assert "Traceback" not in process.text()
