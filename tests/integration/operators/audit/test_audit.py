"""Prepared faults of each kind are found in a real Placement and real databases, and nothing else is."""

from datetime import timedelta
import json
import math
import uuid

import pytest

from scheduler.nova_db import schema
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.operators.audit.command import Audit
from scheduler.operators.audit.readers import NovaReader, NovaUnreadable, PlacementReader
from scheduler.operators.audit.values import Kind
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.allocations import Owner
from scheduler.placement.writes import Write
from tests.support import forked

OWNER = Owner("project", "user")
MINUTE = timedelta(minutes=1)


@pytest.fixture
def audit(cloud, client):
    """A function that runs an audit and returns its report."""
    readers = []

    def run(meanwhile=lambda: None, placement=None, **settings):
        placement = placement or PlacementReader(client, 4)
        readers.append(placement)
        conf = cloud.nova.conf
        nova = NovaReader(cloud.nova.engines, CellCalls(lambda: 30.0), conf.database.connection)
        return Audit(placement, nova, **settings, sleep=lambda _: meanwhile()).run()

    yield run
    for reader in readers:
        reader.close()


def found(report):
    return sorted((one.kind, one.subject, one.host) for one in report.findings)


def test_a_cloud_in_order(cloud, audit):
    a, b = cloud.host("a"), cloud.host("b")
    numa = cloud.provider("a_numa0", {"VCPU": {"total": 4}}, parent=a)
    ceph = cloud.provider("ceph", {"DISK_GB": {"total": 100}}, traits=["MISC_SHARES_VIA_AGGREGATE"])
    cloud.holds(cloud.instance("a"), a)
    cloud.holds(cloud.instance("b"), b)
    cloud.holds(cloud.instance("a"), numa, resources={"VCPU": 1})
    cloud.holds_each(cloud.instance("a"), {a: {"VCPU": 1}, ceph: {"DISK_GB": 1}})
    moved = cloud.holds(cloud.instance("b"), b)
    cloud.holds(cloud.migration(moved, "a", "b", "finished"), a)
    cloud.instance(None, vm_state="shelved_offloaded")
    report = audit(page=1)
    assert report.findings == []
    assert report.counts == {
        "provider trees": 3,
        "resource providers": 4,
        "consumers": 6,
        "instances": 5,
    }


def test_faults_of_each_kind(cloud, audit):
    a, b = cloud.host("a"), cloud.host("b")
    fine = cloud.holds(cloud.instance("a"), a)
    no_instance = cloud.holds(str(uuid.uuid4()), a)
    cloud.mapping(no_instance, cloud.nova.cell1)
    two_hosts = cloud.holds(cloud.instance("a"), a, b)
    other_host = cloud.holds(cloud.instance("a"), b)
    in_cell0 = cloud.holds(cloud.instance(None, cell=cloud.cell0, vm_state="error"), b)
    moved = cloud.holds(cloud.instance("b"), b, resources={"MEMORY_MB": 1})
    migration = cloud.holds(cloud.migration(moved, "a", "b", "confirmed"), a, resources={"MEMORY_MB": 1})
    nothing = cloud.instance("b")
    full = cloud.host("full")
    cloud.holds(cloud.instance("full"), full)
    cloud.shrink(full, VCPU=1, MEMORY_MB=8192)
    ghost = cloud.host("ghost")
    hidden = cloud.holds(cloud.instance("ghost"), ghost)
    cloud.hide(hidden)
    report = audit()
    assert found(report) == sorted(
        [
            (Kind.NO_INSTANCE, no_instance, "a"),
            (Kind.TWO_HOSTS, two_hosts, "a, b"),
            (Kind.OTHER_HOST, other_host, "b"),
            (Kind.NO_HOST, in_cell0, "b"),
            (Kind.ENDED_MIGRATION, migration, "a"),
            (Kind.NO_ALLOCATION, nothing, "b"),
            (Kind.NO_ALLOCATION, hidden, "ghost"),
            (Kind.OVER_COMMITTED, full, "full"),
            (Kind.HIDDEN, ghost, "ghost"),
        ]
    )
    assert fine not in {one.subject for one in report.findings}


def test_records_that_are_young_are_in_flight(cloud, audit):
    a, b = cloud.host("a"), cloud.host("b")
    cloud.holds(cloud.instance(None, age=MINUTE, vm_state="building"), a)
    cloud.holds(cloud.instance("a", age=MINUTE), b)
    scheduling = cloud.holds(str(uuid.uuid4()), a)
    cloud.nova.insert_api(
        schema.build_requests,
        instance_uuid=scheduling,
        project_id="project",
        created_at=schema.utcnow() - MINUTE,
    )
    assert audit().findings == []
    assert len(audit(grace=timedelta(seconds=1)).findings) == 3


def test_a_cell_that_cannot_be_read_is_not_taken_for_empty(cloud, audit):
    cloud.holds(str(uuid.uuid4()), cloud.host("a"))
    away = cloud.nova.add_cell("away", reachable=False)
    with pytest.raises(
        NovaUnreadable, match=rf"Cannot read the database of cell away \({away}\): "
    ) as raised:
        audit()
    assert "nova:nova" not in str(raised.value)


def test_without_the_api_database_nothing_is_compared(cloud, audit):
    working, url = cloud.nova.engines, cloud.nova.conf.api_database.connection
    cloud.nova.conf.set_override("connection", "mysql+pymysql://nova:nova@127.0.0.1:1/nova", "api_database")
    cloud.nova.engines = Engines(cloud.nova.conf)
    try:
        with pytest.raises(NovaUnreadable, match="Cannot read the API database: "):
            audit()
    finally:
        cloud.nova.engines.dispose()
        cloud.nova.engines = working
        cloud.nova.conf.set_override("connection", url, "api_database")


def test_an_instance_in_a_cell_that_is_new_is_not_taken_for_none(cloud, audit):
    """It is in a cell that was added after the audit had read the list of cells, by an audit of many hours."""
    a = cloud.host("a")
    consumer = cloud.holds(str(uuid.uuid4()), a)
    added = []

    def meanwhile():
        if not added:
            added.append(cloud.nova.add_cell("new"))
            cloud.mapping(consumer, added[0])

    with pytest.raises(NovaUnreadable, match=f"Cell {'.' * 36} was added during the audit"):
        audit(meanwhile)


@pytest.fixture
def command(cloud, tmp_path):
    """A function that runs the command; its exit status, rows and the rest of what it prints."""
    path = tmp_path / "nova.conf"
    path.write_text(
        f"[DEFAULT]\nhost = me\nstate_path = {tmp_path}\n"
        f"[api_database]\nconnection = {cloud.nova.conf.api_database.connection}\n"
        f"[database]\nconnection = {cloud.nova.conf.database.connection}\n"
        f"[placement]\nauth_type = admin_token\nendpoint = {cloud.url}\ntoken = admin\n"
    )

    def run(*options):
        words = ("-m", "scheduler.operators.programs", "berth-status", "audit", "--config-file", path)
        done = forked.run(*words, "--recheck-after", "0.1", "--format", "json", *options)
        return done.returncode, json.loads(done.stdout or "[]"), done.stderr

    return run


def test_the_command_prints_findings_and_exits_with_their_status(cloud, command):
    a = cloud.host("a")
    cloud.holds(cloud.instance("a"), a)
    gone = cloud.holds(str(uuid.uuid4()), a)
    status, rows, errors = command()
    assert status == 1, errors
    assert [(row["Kind"], row["Subject"], row["Host"]) for row in rows] == [
        ("allocation-without-instance", gone, "a")
    ]
    assert "Compared 1 resource providers, 2 consumers, 1 instances, 1 provider trees. Findings: 1." in errors


def test_an_empty_write_releases_what_placement_hides(cloud, client, audit):
    """Though its host has no room for it."""
    host = cloud.host("ghost")
    hidden = cloud.holds(str(uuid.uuid4()), host)
    cloud.hide(hidden)
    cloud.shrink(host, VCPU=1, MEMORY_MB=1)
    assert {one.kind for one in audit().findings} == {Kind.HIDDEN, Kind.OVER_COMMITTED}
    AllocationWriter(client).write({hidden: Write({}, OWNER)}, until=-math.inf)
    assert audit().findings == []
