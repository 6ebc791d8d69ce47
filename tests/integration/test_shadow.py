"""A shadow beside a scheduler that serves: it decides the same, and leaves nothing behind."""

import json
import os
import signal

import pytest

from conductor_client.client import SchedulerClient
from scheduler.operators.shadow import report
from tests.support import forked
from tests.support.waiting import eventually
from tools.rig.load import ask, make_requests
from tools.rig.world import RunningWorld, World

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow, pytest.mark.timeout(300)]

REQUESTS = 12


@pytest.fixture(scope="module")
def cloud(tmp_path_factory, rabbit):
    with RunningWorld(World(40), tmp_path_factory.mktemp("cloud"), rabbit) as running:
        yield running


def shadow_queues(cloud):
    return [name for name in cloud.rabbit.queues(cloud.vhost) if "shadow" in name]


def test_a_shadow_decides_as_the_scheduler_and_leaves_nothing(cloud):
    directory = cloud.directory / "shadow"
    directory.mkdir()
    shadow = cloud.run(
        "scheduler.operators.programs",
        "berth-shadow",
        "--config-file",
        cloud.config_file,
        "run",
        "--directory",
        directory,
        name="shadow",
    )
    shadow.wait_for_line("Receiving copies of requests")
    assert len(shadow_queues(cloud)) == 1
    client = SchedulerClient(cloud.bus, timeout=60)
    requests = make_requests(REQUESTS, 1)
    assert [ask(client, request).error for request in requests] == [""] * REQUESTS
    assert eventually(lambda: len(list(report.read(directory))) == REQUESTS), "not all requests are compared"
    assert shadow.status is None
    os.kill(shadow.pid, signal.SIGTERM)
    assert eventually(lambda: shadow.status is not None), "the shadow does not stop"
    assert shadow.status == 0
    assert shadow_queues(cloud) == []
    found = json.loads(printed_report(cloud, directory, "-f", "json"))
    assert found["compared"] == REQUESTS
    counts = {line["verdict"]: line["count"] for line in found["lines"]}
    assert counts["nova-refused"] == counts["berth-refused"] == counts["unknown"] == 0
    # A reason is known for each difference
    assert counts["same"] + counts["equal"] + counts["unreported"] + counts["changed"] == REQUESTS
    assert "Traceback" not in shadow.text()
    assert f"Of {REQUESTS} requests" in printed_report(cloud, directory)


def printed_report(cloud, directory, *arguments):
    command = (
        "-m",
        "scheduler.operators.programs",
        "berth-shadow",
        "--config-file",
        cloud.config_file,
        "report",
    )
    done = forked.run(*command, "--directory", directory, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout
