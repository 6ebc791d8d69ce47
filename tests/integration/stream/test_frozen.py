"""Two daemons, a real RabbitMQ and Placement, while one daemon is frozen."""

from concurrent.futures import ThreadPoolExecutor
import os
import signal

import pytest

from conductor_client.client import SchedulerClient
from tests.integration.stream.schedulers import PATIENCE
from tests.unit.conductor_client.doubles import context, make_spec, new_uuid
from tools.rig.world import Daemon, RunningWorld, World

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow]

CALLERS = 12


@pytest.fixture
def cloud(tmp_path, rabbit):
    world = World(cells=1, daemons=(Daemon("controller1"), Daemon("controller2")))
    with RunningWorld(world, tmp_path, rabbit) as started:
        yield started


def test_what_a_frozen_scheduler_was_handed_is_answered_by_another_while_callers_wait(cloud):
    second = cloud.schedulers[1]
    client = SchedulerClient(
        cloud.bus, timeout=PATIENCE
    )  # as long as nova's callers wait for a first heartbeat

    def place(_number):
        return client.select_destinations(context(), make_spec(), [new_uuid()])[0][0].service_host

    os.killpg(second.pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(CALLERS) as pool:
            assert len(list(pool.map(place, range(CALLERS)))) == CALLERS
    finally:
        os.killpg(second.pid, signal.SIGCONT)
