import json
import logging

import pytest
import sqlalchemy as sa

from scheduler.nova_db import instances as instances_of_cells
from scheduler.nova_db.cells import Cells
from scheduler.nova_db.instances import CellInstances
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import instance_extra, instance_system_metadata, instances
from scheduler.objects import Flavor


@pytest.fixture
def source(nova):
    cells = Cells(nova.engines, nova.conf)
    cells.load()
    return CellInstances(cells, CellCalls(lambda: 10.0))


def take_away(nova, table="instances"):
    with nova.cells[nova.cell1].begin() as connection:
        connection.execute(sa.text(f"ALTER TABLE {table} RENAME TO elsewhere"))


def test_without_a_question_there_is_no_answer(source):
    assert source.locate([]) == {}
    assert source.image_properties([]) == {}


def test_hosts_of_instances_are_those_of_instances_that_users_see(nova, source):
    seen = {
        "active": "cmp1",
        "stateless": "cmp2",
        "soft-deleted": "cmp3",
        "hidden": "cmp4",
        "deleted": "cmp5",
    }
    columns = {
        "stateless": {"vm_state": None, "hidden": None},
        "soft-deleted": {"vm_state": "soft-delete"},
        "hidden": {"hidden": True},
        "deleted": {"deleted": 1},
    }
    uuids = [nova.add_instance(host, **columns.get(name, {})) for name, host in seen.items()]
    nova.add_instance("cmp6")
    assert source.hosts_of_instances(uuids) == ({"cmp1", "cmp2"}, True)


def test_hosts_of_instances_say_when_a_cell_has_not_answered(nova, source):
    uuid = nova.add_instance("cmp1")
    take_away(nova)
    assert source.hosts_of_instances([uuid]) == (set(), False)


def test_more_uuids_than_fit_in_one_statement_are_located(nova, source):
    uuids = [nova.add_instance(f"cmp{number}") for number in (1, 2)]
    wanted = [uuids[0], *(f"unknown{number}" for number in range(1200)), uuids[1]]
    assert source.locate(wanted) == {uuids[0]: [(nova.cell1, "cmp1")], uuids[1]: [(nova.cell1, "cmp2")]}


def test_hosts_in_a_cell_that_is_away_are_those_of_its_last_answer(nova, source, caplog):
    stays, unseen = nova.add_instance("cmp1"), nova.add_instance("cmp2")
    source.locate([stays])
    take_away(nova)
    with caplog.at_level(logging.WARNING):
        assert source.locate([stays, unseen]) == {stays: [(nova.cell1, "cmp1")]}
        assert source.on_host(nova.cell1, "cmp1") == {}
        assert source.image_properties([(nova.cell1, "cmp1")]) == {}
    assert caplog.text.count("Cannot read the instances") == 1


def test_instances_are_located_in_some_cells_only(nova, source):
    here = nova.add_instance("cmp1")
    assert source.locate([here], [nova.cell1]) == {here: [(nova.cell1, "cmp1")]}
    assert source.locate([here], ["another"]) == {}


def test_an_outage_and_its_end_are_logged_once(nova, source, caplog):
    take_away(nova)
    for _ in range(5):
        source.hosts_of_instances(["i1"])
    with nova.cells[nova.cell1].begin() as connection:
        connection.execute(sa.text("ALTER TABLE elsewhere RENAME TO instances"))
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            source.hosts_of_instances(["i1"])
    assert caplog.text.count(": (sqlite3.OperationalError) no such table: instances\n") == 1
    assert caplog.text.count("are read again") == 1


def test_a_deleted_instance_is_not_in_the_last_answer(nova, source):
    moved = nova.add_instance("cmp1")
    source.locate([moved])
    nova.update(instances, instances.c.uuid == moved, deleted=1)
    source.locate([moved])
    take_away(nova)
    assert source.locate([moved]) == {}


def test_instances_that_are_nowhere_take_no_place_among_the_last_hosts(nova, monkeypatch):
    monkeypatch.setattr(instances_of_cells, "MAX_LOCATED", 1)
    cells = Cells(nova.engines, nova.conf)
    cells.load()
    source = CellInstances(cells, CellCalls(lambda: 10.0))
    stays = nova.add_instance("cmp1")
    source.locate([stays, "unknown"])
    take_away(nova)
    assert source.locate([stays, "unknown"]) == {stays: [(nova.cell1, "cmp1")]}


def test_equal_images_are_one_object(nova, source):
    for _ in range(2):
        nova.add_instance("cmp1", image={"os_distro": "linux"})
    (images,) = source.image_properties([(nova.cell1, "cmp1")]).values()
    assert images == [{"os_distro": "linux"}] * 2
    assert images[0] is images[1]


def test_an_image_is_read_once_until_a_cast_tells_of_a_change(nova, source):
    uuid = nova.add_instance("cmp1", image={"os_distro": "linux"})
    place = (nova.cell1, "cmp1")
    assert source.image_properties([place]) == {place: [{"os_distro": "linux"}]}
    nova.update(instance_system_metadata, sa.true(), value="windows")
    assert source.image_properties([place]) == {place: [{"os_distro": "linux"}]}
    source.reread_images([uuid, "another"])
    assert source.image_properties([place]) == {place: [{"os_distro": "windows"}]}


def test_only_image_properties_count(nova, source):
    uuid = nova.add_instance("cmp1", image={"a": "1", "null": None})
    for key, columns in {
        "imageXb": {},
        "old_image_c": {},
        "image_gone": {"deleted": 3},
        "image_mappings": {},
    }.items():
        nova.insert(instance_system_metadata, instance_uuid=uuid, key=key, value="x", **columns)
    assert source.image_properties([(nova.cell1, "cmp1")]) == {(nova.cell1, "cmp1"): [{"a": "1"}]}


def test_images_that_cannot_be_read_count_as_none(nova, source):
    nova.add_instance("cmp1", image={"a": "1"})
    take_away(nova, "instance_system_metadata")
    assert source.image_properties([(nova.cell1, "cmp1")]) == {(nova.cell1, "cmp1"): [{}]}


def test_more_instances_than_are_remembered_have_their_images(nova, monkeypatch):
    monkeypatch.setattr(instances_of_cells, "MAX_REMEMBERED", 1)
    cells = Cells(nova.engines, nova.conf)
    cells.load()
    source = CellInstances(cells, CellCalls(lambda: 10.0))
    for name in ("linux", "windows", "linux"):
        nova.add_instance("cmp1", image={"os_distro": name})
    for _ in range(2):
        (images,) = source.image_properties([(nova.cell1, "cmp1")]).values()
        assert sorted(image["os_distro"] for image in images) == ["linux", "linux", "windows"]


# -- what operators' rules read -----------------------------------------------------------------------------------


def add(nova, **columns):
    uuid = nova.add_instance("cmp1", **columns)
    flavor = Flavor(name=f"of {uuid}", memory_mb=512, extra_specs={"a": "b"}).obj_to_primitive()
    nova.insert(
        instance_extra, instance_uuid=uuid, flavor=json.dumps({"cur": flavor, "old": None, "new": None})
    )
    return uuid


def test_attributes_are_those_of_the_databases(nova, source):
    mine, other = (
        add(nova, project_id="p", image={"os_distro": "linux"}),
        add(nova, vm_state="stopped", vcpus=4),
    )
    on_host = source.on_host(nova.cell1, "cmp1")
    assert {uuid: instance.uuid for uuid, instance in on_host.items()} == {mine: mine, other: other}
    assert (on_host[mine].project_id, on_host[mine].vm_state, on_host[mine].host) == ("p", "active", "cmp1")
    assert (on_host[other].project_id, on_host[other].vm_state, on_host[other].vcpus) == (None, "stopped", 4)
    assert (on_host[mine].flavor.name, on_host[other].flavor.extra_specs) == (f"of {mine}", {"a": "b"})
    assert on_host[mine].system_metadata == {"image_os_distro": "linux"}
    assert on_host[other].system_metadata == {}


def test_uuids_take_one_query_and_each_other_kind_one_more(nova, source):
    for _ in range(3):
        add(nova)
    asked = []

    def note(_connection, _cursor, statement, _parameters, _context, _many):
        if "FROM" in statement:  # the engine tests its connection by another one
            asked.append(statement)

    sa.event.listen(nova.cells[nova.cell1], "before_cursor_execute", note)
    on_host = source.on_host(nova.cell1, "cmp1").values()
    counts = {}
    for name in ("uuid", "vm_state", "project_id", "flavor", "system_metadata"):
        for instance in on_host:
            getattr(instance, name)
        counts[name] = len(asked)
    assert counts == {"uuid": 1, "vm_state": 2, "project_id": 2, "flavor": 3, "system_metadata": 4}


def test_an_attribute_that_cannot_be_read_raises_an_error(nova, source):
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
