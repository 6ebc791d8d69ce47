import json

import pytest
import sqlalchemy as sa

from conductor_client.cell_rows import ComputeRows
from scheduler.nova_db import schema
from tests.unit.conductor_client.doubles import make_spec


@pytest.fixture
def engine(tmp_path):
    made = sa.create_engine(f"sqlite:///{tmp_path}/cell")
    schema.CELL.create_all(made)
    row = {
        "memory_mb": 1024,
        "free_ram_mb": 1024,
        "free_disk_gb": 10,
        "disk_available_least": 9,
        "running_vms": 0,
    }
    with made.begin() as connection:
        for node, deleted in (("n", 0), ("n", 7), ("m", 0)):
            place = {"host": node, "hypervisor_hostname": node, "deleted": deleted, "stats": None}
            connection.execute(sa.insert(schema.compute_nodes), [row | place])
    yield made
    made.dispose()


def rows(engine):
    with engine.connect() as connection:
        return connection.execute(sa.select(schema.compute_nodes).order_by(schema.compute_nodes.c.id)).all()


def test_a_build_is_in_the_nodes_row_and_in_no_other(engine):
    usage = ComputeRows(engine)
    before = rows(engine)
    for instance in ("i", "j"):
        usage.built(instance, "n", "n", make_spec())
    changed, *others = rows(engine)
    assert others == before[1:]
    assert (changed.vcpus_used, changed.memory_mb_used, changed.local_gb_used) == (2, 1024, 2)
    assert (changed.free_ram_mb, changed.free_disk_gb, changed.disk_available_least) == (0, 8, 7)
    assert changed.running_vms == 2
    assert json.loads(changed.stats) == {"num_instances": "2", "failed_builds": "0"}
    assert changed.updated_at is not None


def test_a_build_is_a_live_instance_of_its_host(engine):
    ComputeRows(engine).built("i", "n", "n", make_spec())
    with engine.connect() as connection:
        (row,) = connection.execute(sa.select(schema.instances))
    assert (row.uuid, row.host, row.node, row.deleted, row.hidden) == ("i", "n", "n", 0, False)
    assert (row.project_id, row.vcpus, row.memory_mb, row.root_gb) == ("p", 1, 512, 1)


def test_a_deleted_instance_leaves_the_row_as_it_was_before_its_build(engine):
    usage = ComputeRows(engine)
    for instance in ("i", "j"):
        usage.built(instance, "n", "n", make_spec())
    for instance in ("i", "j", "j", "unknown"):
        usage.deleted(instance)
    changed = rows(engine)[0]
    assert (changed.vcpus_used, changed.memory_mb_used, changed.free_ram_mb, changed.running_vms) == (
        0,
        0,
        1024,
        0,
    )
    assert json.loads(changed.stats)["num_instances"] == "0"
    with engine.connect() as connection:
        assert connection.execute(sa.select(schema.instances.c.id)).all() == []


def test_failures_are_counted_until_a_build_succeeds(engine):
    usage = ComputeRows(engine)
    for _ in range(2):
        usage.failed("n")
    assert json.loads(rows(engine)[0].stats) == {"failed_builds": "2"}
    assert rows(engine)[0].running_vms == 0
    usage.built("i", "n", "n", make_spec())
    assert json.loads(rows(engine)[0].stats)["failed_builds"] == "0"
