import logging

import pytest
import sqlalchemy as sa

from scheduler.nova_db.cells import Cells
from scheduler.nova_db.instances import CellInstances
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import instance_system_metadata, instances


@pytest.fixture
def source(nova):
    cells = Cells(nova.engines, nova.conf)
    cells.load()
    return CellInstances(cells, CellCalls(lambda: 10.0))


def take_away(nova, table="instances"):
    with nova.cells[nova.cell1].begin() as connection:
        connection.execute(sa.text(f"ALTER TABLE {table} RENAME TO elsewhere"))


def test_nobody_asked_for(source):
    assert source.locate([]) == {}
    assert source.image_properties([]) == {}


def test_homes_are_those_of_instances_that_users_see(nova, source):
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


def test_homes_say_when_a_cell_was_not_asked(nova, source):
    uuid = nova.add_instance("cmp1")
    take_away(nova)
    assert source.hosts_of_instances([uuid]) == (set(), False)


def test_more_than_one_statement_takes(nova, source):
    uuids = [nova.add_instance(f"cmp{number}") for number in (1, 2)]
    wanted = [uuids[0], *(f"unknown{number}" for number in range(1200)), uuids[1]]
    assert source.locate(wanted) == {uuids[0]: [(nova.cell1, "cmp1")], uuids[1]: [(nova.cell1, "cmp2")]}


def test_a_cell_that_is_away_is_answered_for_with_what_was_last_known(nova, source, caplog):
    stays, unseen = nova.add_instance("cmp1"), nova.add_instance("cmp2")
    source.locate([stays])
    take_away(nova)
    with caplog.at_level(logging.WARNING):
        assert source.locate([stays, unseen]) == {stays: [(nova.cell1, "cmp1")]}
        assert source.on_host(nova.cell1, "cmp1") == {}
        assert source.image_properties([(nova.cell1, "cmp1")]) == {}
    assert caplog.text.count("cannot be read") == 1


def test_a_cell_that_is_back_is_told_once(nova, source, caplog):
    take_away(nova)
    for _ in range(5):
        source.hosts_of_instances(["i1"])
    with nova.cells[nova.cell1].begin() as connection:
        connection.execute(sa.text("ALTER TABLE elsewhere RENAME TO instances"))
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            source.hosts_of_instances(["i1"])
    assert caplog.text.count("cannot be read: (sqlite3.OperationalError) no such table: instances\n") == 1
    assert caplog.text.count("can be read again") == 1


def test_what_was_last_known_is_forgotten_once_it_is_no_more(nova, source):
    moved = nova.add_instance("cmp1")
    source.locate([moved])
    nova.update(instances, instances.c.uuid == moved, deleted=1)
    source.locate([moved])
    take_away(nova)
    assert source.locate([moved]) == {}


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
    source.changed([uuid, "another"])
    assert source.image_properties([place]) == {place: [{"os_distro": "windows"}]}


def test_only_image_properties_count(nova, source):
    uuid = nova.add_instance("cmp1", image={"a": "1", "null": None})
    for key, columns in {"imageXb": {}, "old_image_c": {}, "image_gone": {"deleted": 3}}.items():
        nova.insert(instance_system_metadata, instance_uuid=uuid, key=key, value="x", **columns)
    assert source.image_properties([(nova.cell1, "cmp1")]) == {(nova.cell1, "cmp1"): [{"a": "1"}]}


def test_images_that_cannot_be_read_count_as_none(nova, source):
    nova.add_instance("cmp1", image={"a": "1"})
    take_away(nova, "instance_system_metadata")
    assert source.image_properties([(nova.cell1, "cmp1")]) == {(nova.cell1, "cmp1"): [{}]}
