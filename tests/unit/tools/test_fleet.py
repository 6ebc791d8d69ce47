import json

import pytest
import sqlalchemy as sa

from scheduler.nova_db import schema
from tools.rig.fleet import CELL0_UUID, ZONES, Cell, Fleet


@pytest.fixture
def urls(tmp_path):
    return {name: f"sqlite:///{tmp_path}/{name}" for name in ("api", "cell0", "one", "two")}


@pytest.fixture
def fleet(urls):
    return Fleet(12, [Cell("one", urls["one"], "fake://one"), Cell("two", urls["two"], "fake://two")])


def read(url, *columns):
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return connection.execute(sa.select(*columns)).all()


def test_hosts_are_spread_evenly(fleet):
    assert [len(fleet.of_cell(cell)) for cell in fleet.cells] == [6, 6]
    assert [sum(host.zone == zone for host in fleet.hosts) for zone in ZONES] == [4, 4, 4]


def test_the_same_again(fleet):
    again = Fleet(12, fleet.cells)
    assert [host.uuid for host in again.hosts] == [host.uuid for host in fleet.hosts]
    assert again.providers() == fleet.providers()


def test_databases(fleet, urls):
    fleet.write(urls["api"], urls["cell0"])
    cells = dict(read(urls["api"], schema.cell_mappings.c.name, schema.cell_mappings.c.uuid))
    assert cells == {"cell0": CELL0_UUID, **{cell.name: cell.uuid for cell in fleet.cells}}
    assert len(read(urls["api"], schema.host_mappings.c.host)) == 12
    nodes = schema.compute_nodes.c
    rows = read(urls["one"], nodes.host, nodes.memory_mb, nodes.numa_topology, nodes.deleted)
    assert {row.host for row in rows} == {host.name for host in fleet.of_cell(fleet.cells[0])}
    for row in rows:
        cells = json.loads(row.numa_topology)["nova_object.data"]["cells"]
        assert sum(cell["nova_object.data"]["memory"] for cell in cells) in (row.memory_mb, row.memory_mb - 1)
        assert row.deleted == 0
    assert len(read(urls["two"], schema.services.c.host)) == 6
    assert read(urls["cell0"], schema.services.c.host) == []


def test_placement_sees_what_the_databases_say(fleet):
    for host, provider in zip(fleet.hosts, fleet.providers(), strict=True):
        assert (provider.uuid, provider.name) == (host.uuid, host.nodename)
        assert provider.inventories["MEMORY_MB"]["total"] == host.hardware.memory_mb
        members = [aggregate.uuid for aggregate in fleet.aggregates if host in aggregate.hosts]
        assert provider.aggregates == members
