"""Two daemons, a real RabbitMQ and Placement: members of one server group that are asked for at the same time."""

from concurrent.futures import ThreadPoolExecutor
import os
import signal

import pytest
import requests

from conductor_client.client import SchedulerClient
from scheduler import objects
from tests.integration.deployed import DeployedCloud, until
from tests.integration.stream.schedulers import PATIENCE
from tests.unit.conductor_client.doubles import context, make_spec, new_uuid
from tools.rig.providers import HEADERS

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow]

PAIRS = 20


class Schedulers:
    """Two daemons on one cloud, and the pairs of instances that are asked of them."""

    def __init__(self, cloud):
        self._cloud = cloud
        self._client = SchedulerClient(cloud.bus, timeout=PATIENCE)
        path = cloud.configure(cloud.transport_url, host="controller2")
        second = cloud.run("scheduler.cmd.scheduler", "--config-file", path, name="scheduler2")
        second.wait_for_line("All workers take requests")
        self.daemons = [cloud.scheduler, second]

    def place_pairs(self, count, while_waiting=lambda: None):
        """Ask for pairs, each of an anti-affinity group of its own, all at once; returns the hosts of each.

        Each instance holds the host that its caller was told, and nothing else.
        """
        pairs = [(new_uuid(), new_uuid()) for _ in range(count)]
        with ThreadPoolExecutor(2 * count) as pool:
            calls = [[pool.submit(self._place, pair, member) for member in pair] for pair in pairs]
            while_waiting()
            return [{call.result() for call in pair} for pair in calls]

    def _place(self, pair, member):
        group = objects.InstanceGroup(
            uuid=pair[0],
            policy="anti-affinity",
            policies=["anti-affinity"],
            members=list(pair),
            hosts=[],
        )
        spec = make_spec(instance_group=group)
        chosen = self._client.select_destinations(context(), spec, [member])[0][0]
        path = f"{self._cloud.placement_url}/allocations/{member}"
        held = requests.get(path, headers=HEADERS, timeout=10).json()["allocations"]
        assert list(held) == [chosen.compute_node_uuid]
        return chosen.service_host

    def forwarded(self):
        """Whether the daemon that gets the calls has sent some on."""
        return any("Forwarded call " in each.text() for each in self.daemons)


@pytest.fixture
def schedulers(tmp_path, rabbit):
    with DeployedCloud(tmp_path, rabbit, hosts=12, cells=1, conductors=False) as cloud:
        yield Schedulers(cloud)


def signal_all(daemon, number):
    os.killpg(daemon.pid, number)


def test_members_of_a_group_never_meet_and_are_placed_also_if_the_owner_is_killed(schedulers):
    until(lambda: schedulers.place_pairs(2) and schedulers.forwarded(), "No call is forwarded")
    for _ in range(PAIRS):
        assert [len(hosts) for hosts in schedulers.place_pairs(1)] == [2]

    stopped = schedulers.daemons[1]
    signal_all(stopped, signal.SIGSTOP)
    hosts = schedulers.place_pairs(4, lambda: signal_all(stopped, signal.SIGKILL))
    assert [len(each) for each in hosts] == [2] * 4
    assert "Traceback" not in "".join(each.text() for each in schedulers.daemons)
