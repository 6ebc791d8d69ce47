"""Workers of a real daemon, with a real RabbitMQ and Placement.

They are schedulers that share their decisions, and what Placement answers.
"""

from concurrent.futures import ThreadPoolExecutor
import threading
import uuid

import pytest

from conductor_client.client import SchedulerClient
from scheduler.stream.broker import QUEUE
from scheduler.stream.decision_stream import AVAILABLE, UNAVAILABLE
from tests.integration.deployed import DeployedCloud
from tests.integration.stream.schedulers import PATIENCE
from tests.support.faulty_proxy import FaultyProxy, after_doing
from tests.support.waiting import eventually
from tests.unit.conductor_client.doubles import context, make_spec

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow]

REQUESTS = 12
WORKERS = 3


class ObservedCloud(DeployedCloud):
    """A cloud whose requests to Placement are seen, and whose scheduler tells of each request."""

    def configure(self, transport_url, **options):
        self.proxy = self.enter_context(FaultyProxy(self.placement_url))
        self.placement_url = self.proxy.url
        return super().configure(transport_url, defaults="debug = true\n", **options)

    def questions(self):
        """How often hosts with room were asked for."""
        return sum(method == "GET" and "resources=" in path for method, path in self.proxy.seen)


@pytest.fixture
def cloud(tmp_path, rabbit):
    with ObservedCloud(tmp_path, rabbit, hosts=12, cells=1, conductors=False, workers=WORKERS) as started:
        yield started


def place(cloud, when_all_have_come=lambda: None):
    """The hosts of single builds that are asked for at once."""
    client = SchedulerClient(cloud.bus, timeout=PATIENCE)
    begun = cloud.scheduler.text().count("Starting to schedule")

    def one(_number):
        return client.select_destinations(context(), make_spec(), [str(uuid.uuid4())])[0][0].service_host

    with ThreadPoolExecutor(REQUESTS) as pool:
        hosts = pool.map(one, range(REQUESTS))
        eventually(lambda: cloud.scheduler.text().count("Starting to schedule") == begun + REQUESTS, PATIENCE)
        when_all_have_come()
        return list(hosts)


def test_workers_answer_all_requests_and_tell_each_other(cloud, rabbit):
    cloud.scheduler.wait_for_line(f"All {WORKERS} workers take requests")
    assert cloud.scheduler.text().count("The decision stream was read up to now") == WORKERS
    assert f"{WORKERS} schedulers alive" in cloud.scheduler.text()
    assert len(place(cloud)) == REQUESTS
    check_that_one_asks_for_all(cloud)
    vhost = cloud.transport_url.rpartition("/")[2]
    # at least an intent or a claim of each request; several may share a message
    assert eventually(lambda: rabbit.messages(vhost, QUEUE) >= REQUESTS, PATIENCE)
    assert cloud.stop_processes() == [("scheduler.cmd.scheduler", 0)]
    # RabbitMQ may answer an internal error to one of those that declare the stream at the same time
    interrupted, ended = (cloud.scheduler.text().count(text) for text in (UNAVAILABLE, AVAILABLE))
    assert interrupted == ended
    assert "Traceback" not in cloud.scheduler.text()


def check_that_one_asks_for_all(cloud):
    """Placement does not answer before all requests have come.

    The first question is sent for those who come first, the next one for all others, or two for those that were
    received and had not got so far. Workers that share nothing ask twice each.
    """
    asked, goes_on = cloud.questions(), threading.Event()
    wait = after_doing(lambda: goes_on.wait(PATIENCE))
    cloud.proxy.on("GET", "/resource_providers?", *[wait] * 10 * WORKERS)
    assert len(place(cloud, goes_on.set)) == REQUESTS
    assert 2 <= cloud.questions() - asked < 2 * WORKERS
