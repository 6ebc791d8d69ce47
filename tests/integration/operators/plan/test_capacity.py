"""Capacity is what fits: the cloud is filled by a scheduler until it refuses an instance."""

from collections import Counter
import uuid

import pytest

from conductor_client import journal
from scheduler.operators.plan.capacity import fits
from scheduler.operators.snapshot import snapshot
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.rpc.context import RequestContext
from tools.rig.load import PROJECT, USER, BootRequest, Flavor
from tools.rig.world import Daemon, RunningWorld, World

HOSTS, TIMEOUT = 4, 60

#: So large that three to eight of them fill a host.
FLAVOR = Flavor(9, "quarter", 16, 60000, 300)

pytestmark = pytest.mark.slow


class Filling:
    """Builds instances one after the other."""

    def __init__(self, cloud):
        self.cloud = cloud
        self.context = RequestContext(user_id=USER, project_id=PROJECT)

    def build(self):
        """Build one; return its host, or None if it has none."""
        instance = str(uuid.uuid4())
        spec = BootRequest([instance], FLAVOR, None).spec()
        call = self.cloud.client.prepare(timeout=TIMEOUT)
        call.call(self.context, "build_instances", request_spec=spec, instance_uuids=[instance])
        assert self.cloud.journal.wait([instance], TIMEOUT)
        (record,) = self.cloud.journal.records([instance])
        return record.host if record.state == journal.ACTIVE else None

    def counted(self):
        """What a plan says fits, by host."""
        with snapshot.read(self.cloud.conf) as read:
            cloud = PlannedCloud(read)
            spec = BootRequest([str(uuid.uuid4())], FLAVOR, None).spec()
            return Counter({cloud.host(row): fit.count for row, fit in fits(cloud, spec).items()})


def test_as_many_fit_as_are_built(tmp_path):
    world = World(HOSTS, bus="memory", daemons=(Daemon(here=True),), conductors="here")
    with RunningWorld(world, tmp_path) as cloud:
        filling = Filling(cloud)
        expected = filling.counted()
        first = filling.build()
        assert filling.counted() == expected - Counter([first])
        built = Counter([first])
        while (host := filling.build()) is not None:
            built[host] += 1
        assert +built == +expected
        assert not +filling.counted()
