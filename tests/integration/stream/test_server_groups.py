"""Several daemons, a real RabbitMQ and Placement: members of one server group that are asked for at the same time.

Each scheduler has so few threads that the broker deals the calls out to all of them.
"""

from concurrent.futures import ThreadPoolExecutor
import os
import signal
import threading

import pytest

from conductor_client.client import SchedulerClient
from scheduler import objects
from tests.integration.stream.schedulers import PATIENCE
from tests.unit.conductor_client.doubles import context, make_spec, new_uuid
from tools.rig.providers import held
from tools.rig.world import Daemon, RunningWorld, World

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow]

DAEMONS = 3
MEMBERS = 3

#: Groups of each policy; BERTH_GROUPS asks for another number.
GROUPS = int(os.environ.get("BERTH_GROUPS", "12"))

#: Groups that are asked for at the same time.
AT_ONCE = 4


class Schedulers:
    """Daemons on one cloud, and the members of groups that are asked of them."""

    def __init__(self, cloud):
        self._cloud = cloud
        self._client = SchedulerClient(cloud.bus, timeout=PATIENCE)
        self.daemons = cloud.schedulers

    def place(self, policy, count, while_waiting=lambda: None):
        """Ask for the members of groups, those of one at the same instant; return the hosts of each group.

        Each instance holds the host that its caller was told, and nothing else.
        """
        groups = [[new_uuid() for _ in range(MEMBERS)] for _ in range(count)]
        starts = [threading.Barrier(MEMBERS) for _ in groups]
        with ThreadPoolExecutor(AT_ONCE * MEMBERS) as pool:
            calls = [
                [pool.submit(self._place, policy, group, member, start) for member in group]
                for group, start in zip(groups, starts, strict=True)
            ]
            while_waiting()
            return [{call.result() for call in group} for group in calls]

    def _place(self, policy, group, member, start):
        wire = objects.InstanceGroup(
            uuid=group[0], policy=policy, policies=[policy], members=list(group), hosts=[]
        )
        spec = make_spec(instance_group=wire)
        start.wait()
        chosen = self._client.select_destinations(context(), spec, [member])[0][0]
        assert list(held(self._cloud.placement_url, member)) == [chosen.compute_node_uuid]
        return chosen.service_host

    def texts(self):
        """What the daemons have logged."""
        return [each.text() for each in self.daemons]


@pytest.fixture
def schedulers(tmp_path, rabbit):
    # they begin two calls at a time; the one with the highest rank gets three before the others
    daemons = [
        Daemon(f"controller{number}", defaults="executor_thread_pool_size = 2\n") for number in range(DAEMONS)
    ]
    with RunningWorld(World(60, cells=1, daemons=tuple(daemons)), tmp_path, rabbit) as cloud:
        yield Schedulers(cloud)


def test_members_of_a_group_are_placed_as_its_policy_says_also_if_a_scheduler_is_killed(schedulers):
    for policy, expected in (("anti-affinity", MEMBERS), ("affinity", 1)):
        hosts = schedulers.place(policy, GROUPS)
        assert [len(each) for each in hosts] == [expected] * GROUPS

    stopped = schedulers.daemons[1]
    os.killpg(stopped.pid, signal.SIGSTOP)
    hosts = schedulers.place("anti-affinity", 4, lambda: os.killpg(stopped.pid, signal.SIGKILL))
    assert [len(each) for each in hosts] == [MEMBERS] * 4
    assert "Traceback" not in "".join(schedulers.texts())
    placed = [sum("Placed instance" in line for line in text.splitlines()) for text in schedulers.texts()]
    assert all(placed), placed
