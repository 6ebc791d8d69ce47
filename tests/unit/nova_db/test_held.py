"""What operators' rules read of the instances on a host."""

import json

import pytest
import sqlalchemy as sa

from scheduler.nova_db.cells import Cells
from scheduler.nova_db.instances import CellInstances
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import instance_extra
from scheduler.objects import Flavor


@pytest.fixture
def source(nova):
    cells = Cells(nova.engines, nova.conf)
    cells.load()
    return CellInstances(cells, CellCalls(lambda: 10.0))


def add(nova, **columns):
    uuid = nova.add_instance("cmp1", **columns)
    flavor = Flavor(name=f"of {uuid}", memory_mb=512, extra_specs={"a": "b"}).obj_to_primitive()
    nova.insert(
        instance_extra, instance_uuid=uuid, flavor=json.dumps({"cur": flavor, "old": None, "new": None})
    )
    return uuid


def test_what_is_known_of_instances(nova, source):
    mine, other = (
        add(nova, project_id="p", image={"os_distro": "linux"}),
        add(nova, vm_state="stopped", vcpus=4),
    )
    held = source.on_host(nova.cell1, "cmp1")
    assert {uuid: instance.uuid for uuid, instance in held.items()} == {mine: mine, other: other}
    assert (held[mine].project_id, held[mine].vm_state, held[mine].host) == ("p", "active", "cmp1")
    assert (held[other].project_id, held[other].vm_state, held[other].vcpus) == (None, "stopped", 4)
    assert (held[mine].flavor.name, held[other].flavor.extra_specs) == (f"of {mine}", {"a": "b"})
    assert held[mine].system_metadata == {"image_os_distro": "linux"}
    assert held[other].system_metadata == {}


def test_uuids_alone_cost_one_query_and_all_else_one_each(nova, source, monkeypatch):
    for _ in range(3):
        add(nova)
    asked, rows = [], source._rows
    monkeypatch.setattr(source, "_rows", lambda *args: asked.append(1) or rows(*args))
    held = source.on_host(nova.cell1, "cmp1").values()
    counts = {}
    for name in ("uuid", "vm_state", "project_id", "flavor", "system_metadata"):
        for instance in held:
            getattr(instance, name)
        counts[name] = len(asked)
    assert counts == {"uuid": 1, "vm_state": 2, "project_id": 2, "flavor": 3, "system_metadata": 4}


def test_what_is_not_there(nova, source):
    uuid = nova.add_instance("cmp1")
    (instance,) = source.on_host(nova.cell1, "cmp1").values()
    with pytest.raises(AttributeError, match="nosuch of instances is not read"):
        _ = instance.nosuch
    with pytest.raises(AttributeError, match=f"flavor of instance {uuid} cannot be read"):
        _ = instance.flavor
    with nova.cells[nova.cell1].begin() as connection:
        connection.execute(sa.text("ALTER TABLE instances RENAME TO elsewhere"))
    with pytest.raises(AttributeError, match=f"vm_state of instance {uuid} cannot be read"):
        _ = instance.vm_state
