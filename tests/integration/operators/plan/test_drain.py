"""A drain is carried out through conductors and computes: what the plan says happens."""

import json
import time
import uuid

import pytest
import sqlalchemy as sa

from conductor_client import journal
from scheduler import objects
from scheduler.nova_db import schema
from scheduler.operators.plan.drain import drain
from scheduler.operators.snapshot import snapshot
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.rpc.context import RequestContext
from tools.rig.load import FLAVORS, PROJECT, USER, BootRequest
from tools.rig.world import Daemon, RunningWorld, World

HOSTS, INSTANCES, GROUPED = 12, 36, 4
TIMEOUT = 60

pytestmark = pytest.mark.slow


class Operated:
    """A cloud with instances, whose requests are stored as nova-api stores them."""

    def __init__(self, cloud):
        self.cloud = cloud
        self.context = RequestContext(user_id=USER, project_id=PROJECT)
        self.api = sa.create_engine(cloud.database("api"), poolclass=sa.NullPool)
        self.specs = {}
        self.group = str(uuid.uuid4())
        self.members = [str(uuid.uuid4()) for _ in range(GROUPED)]

    def build(self):
        self._store_group()
        for number in range(INSTANCES):
            grouped = number < GROUPED
            instance = self.members[number] if grouped else str(uuid.uuid4())
            zone = (None, "az1", None, "az2")[number % 4] if not grouped else None
            self.specs[instance] = BootRequest([instance], FLAVORS[number % 3], zone).spec()
            self._store(instance, self.group if grouped else None)
            self._call("build_instances", request_spec=self.spec(instance), instance_uuids=[instance])
            assert self.ended(instance).state == journal.ACTIVE

    def _store_group(self):
        with self.api.begin() as connection:
            row = {"id": 1, "uuid": self.group, "name": "apart", "user_id": USER, "project_id": PROJECT}
            connection.execute(sa.insert(schema.instance_groups).values(row))
            policy = {"group_id": 1, "policy": "anti-affinity", "rules": "{}"}
            connection.execute(sa.insert(schema.instance_group_policy).values(policy))
            for member in self.members:
                row = {"group_id": 1, "instance_uuid": member}
                connection.execute(sa.insert(schema.instance_group_member).values(row))

    def _store(self, instance, group):
        spec = self.specs[instance].obj_clone()
        spec.instance_group = None if group is None else objects.InstanceGroup(uuid=group)
        with self.api.begin() as connection:
            row = {"instance_uuid": instance, "spec": json.dumps(spec.obj_to_primitive())}
            connection.execute(sa.insert(schema.request_specs).values(row))

    def spec(self, instance):
        """Return a request as a conductor sends it: with the hosts of the server group now."""
        spec = self.specs[instance].obj_clone()
        if instance in self.members:
            where = self.places()
            spec.instance_group = objects.InstanceGroup(
                uuid=self.group,
                name="apart",
                policy="anti-affinity",
                _rules={},
                members=list(self.members),
                hosts=sorted({where[one] for one in self.members if one in where}),
            )
        return spec

    def places(self):
        found = {}
        for cell in self.cloud.fleet.cells:
            engine = sa.create_engine(cell.database_url, poolclass=sa.NullPool)
            with engine.connect() as connection:
                found |= dict(
                    connection.execute(sa.select(schema.instances.c.uuid, schema.instances.c.host)).all()
                )
        return found

    def disable(self, hosts):
        for cell in self.cloud.fleet.cells:
            engine = sa.create_engine(cell.database_url, poolclass=sa.NullPool)
            with engine.begin() as connection:
                row = schema.services
                connection.execute(sa.update(row).where(row.c.host.in_(hosts)).values(disabled=True))

    def settle(self):
        """Wait until the scheduler has seen in the databases what it decided, and counts it once."""
        manager = self.cloud.scheduler.manager
        end = time.monotonic() + TIMEOUT
        while len(manager.hosts.pending):
            assert time.monotonic() < end
            manager.hosts.snapshot(0)

    def migrate(self, instance, host):
        self.settle()
        migration = str(uuid.uuid4())
        where = {"instance_uuid": instance, "migration_uuid": migration, "host": host}
        self._call("live_migrate_instance", request_spec=self.spec(instance), **where)
        return self.ended(migration)

    def _call(self, method, **arguments):
        self.cloud.client.prepare(timeout=TIMEOUT).call(self.context, method, **arguments)

    def ended(self, consumer):
        assert self.cloud.journal.wait([consumer], TIMEOUT)
        (record,) = self.cloud.journal.records([consumer])
        return record


@pytest.fixture
def operated(tmp_path):
    world = World(HOSTS, bus="memory", daemons=(Daemon(here=True),), conductors="here")
    with RunningWorld(world, tmp_path) as running:
        found = Operated(running)
        found.build()
        yield found


def busiest(places, hosts, count):
    """The hosts with most instances of a list."""
    numbers = {host: sum(place == host for place in places.values()) for host in hosts}
    return sorted(numbers, key=lambda host: -numbers[host])[:count]


def test_what_the_plan_says_happens(operated):
    first = [host.name for host in operated.cloud.fleet.hosts if host.cell.name == "cell1"]
    second = [host.name for host in operated.cloud.fleet.hosts if host.cell.name == "cell2"]
    operated.settle()
    places = operated.places()
    drained = [*busiest(places, first, 2), *busiest(places, second, 1)]
    with snapshot.read(operated.cloud.conf) as read:
        rows = [number for number, row in enumerate(read.table.rows) if row.host in drained]
        plan = drain(PlannedCloud(read), rows)
    there = {instance for instance, host in places.items() if host in drained}
    assert len(there) > 5
    moved = {move.instance for move in plan.moves}
    assert moved | {each.instance for each in plan.without_place} == there
    assert moved

    operated.disable(drained)
    for move in plan.moves:
        record = operated.migrate(move.instance, move.source)
        assert (record.state, record.host) == (journal.ACTIVE, move.to), record
    for each in plan.without_place:
        assert operated.migrate(each.instance, each.source).state == journal.ERROR
    now = operated.places()
    assert {instance for instance, host in now.items() if host in drained} == there - moved
    assert len({now[member] for member in operated.members}) == GROUPED
