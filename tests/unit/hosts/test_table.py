from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from scheduler.hosts.aggregates import Aggregates, HostAggregate
from scheduler.hosts.columns import CODED, FLOATS, INTEGERS, TEXTS
from scheduler.hosts.rows import Parsed
from scheduler.hosts.table import HostTable
from tests.builders import CELL, OTHER_CELL, make_aggregates, make_host, make_table, uuid_of


def test_columns():
    table = make_table(
        [
            make_host("h1").ram(-5, total=20).vcpus(8, 3, ratio=16.0),
            make_host("h2").cell(OTHER_CELL).ip("192.0.2.1"),
        ]
    )
    assert list(table.numbers["free_ram_mb"]) == [-5, 0]
    assert list(table.numbers["cpu_allocation_ratio"]) == [16.0, 4.0]
    assert list(table.coded["cell"]) == [CELL, OTHER_CELL]
    assert list(table.coded["host_ip"]) == [None, "192.0.2.1"]
    assert len(table) == 2


def test_service_columns():
    never = make_host("h3").service(last_seen_up=None)
    created = make_host("h4").service(last_seen_up=None, created_at=datetime(1970, 1, 1, 0, 0, 1, 500000))
    table = make_table([make_host("h1").disabled(), make_host("h2").forced_down(), never, created])
    assert list(table.numbers["service_disabled"]) == [True, False, False, False]
    assert list(table.numbers["service_forced_down"]) == [False, True, False, False]
    assert np.isnan(table.numbers["service_seen"][2])
    assert table.numbers["service_seen"][3] == 1.5


def test_a_row_without_service_is_left_out():
    kept, left = make_host("h1"), make_host("h2")
    elsewhere = make_host("h2").cell(OTHER_CELL)
    services = {kept.place: kept.service_row(), elsewhere.place: elsewhere.service_row()}
    table = HostTable([kept.row(), left.row()], services, Aggregates())
    assert [row.host for row in table.rows] == ["h1"]


def test_find():
    table = make_table(
        [make_host("h1"), make_host("h2").cell(OTHER_CELL), make_host("h3")], disabled_cells=[OTHER_CELL]
    )
    uuids = [uuid_of(name) for name in ("h3", "unknown", "h2", "h1")]
    assert list(table.find(uuids)) == [2, 0]
    assert list(table.find(uuids, OTHER_CELL)) == [1]
    assert list(table.find(uuids, CELL)) == [2, 0]
    assert list(table.find([])) == list(table.find([], CELL)) == []


@pytest.mark.parametrize(
    ("host", "node", "cell", "expected"),
    [
        ("ironic1", None, None, ["n1", "n2"]),
        ("ironic1", "n2", None, ["n2"]),
        (None, "n2", None, ["n2"]),
        ("h2", None, None, []),
        ("h2", None, OTHER_CELL, ["h2"]),
        ("h2", None, CELL, []),
        ("ironic1", "h2", None, []),
    ],
)
def test_nodes(host, node, cell, expected):
    hosts = [make_host("ironic1", "n1"), make_host("ironic1", "n2"), make_host("h2").cell(OTHER_CELL)]
    table = make_table(hosts, disabled_cells=[OTHER_CELL])
    assert [row.nodename for row in table.nodes(host, node, cell)] == expected
    assert table.rows_of_host[CELL, "ironic1"] == [0, 1]


def test_other_aggregates_for_the_same_hosts():
    table = make_table([make_host("h1").az("a"), make_host("h2")])
    other = table.with_aggregates(Aggregates([HostAggregate(1, "u", "n", frozenset({"h2"}))]))
    assert [len(found) for found in table.coded["aggregates"]] == [1, 0]
    assert [len(found) for found in other.coded["aggregates"]] == [0, 1]
    assert other.numbers is table.numbers
    assert table.with_aggregates(Aggregates()).aggregates.by_id == {}


# -- the next table ----------------------------------------------------------------------------------------------


def following(table, rows, services):
    return HostTable(rows, services, table.aggregates, previous=table)


def services_of(hosts):
    return {host.place: host.service_row() for host in hosts}


def test_nothing_changed():
    hosts = [make_host("h1"), make_host("h2").az("a")]
    services, rows = services_of(hosts), [host.row() for host in hosts]
    table = HostTable(rows, services, make_aggregates(hosts))
    after = following(table, rows, services)
    assert all(after.numbers[name] is column for name, column in table.numbers.items())
    assert all(after.coded[name] is column for name, column in table.coded.items())


def test_a_table_that_was_read_again_differs_by_the_time_only():
    table = make_table([make_host("h1")])
    named = table.rows_named
    again = table.read_again(7.0)
    assert (again.read_at, table.read_at) == (7.0, 0.0)
    assert again.rows is table.rows
    assert again.numbers is table.numbers
    assert again.rows_named is named


def test_a_heartbeat_changes_service_columns_only():
    hosts = [make_host("h1"), make_host("h2")]
    services, rows = services_of(hosts), [host.row() for host in hosts]
    table = HostTable(rows, services, Aggregates())
    beat = replace(services[CELL, "h2"], last_seen_up=datetime(1970, 1, 1, 0, 0, 9))
    after = following(table, rows, services | {(CELL, "h2"): beat})
    assert after.numbers["service_seen"][1] == 9.0
    assert after.numbers["service_seen"][0] == table.numbers["service_seen"][0]
    assert after.numbers["free_ram_mb"] is table.numbers["free_ram_mb"]
    assert table.numbers["service_seen"][1] != 9.0


def test_a_value_that_did_not_change_keeps_its_code():
    hosts = [make_host("h1"), make_host("h2")]
    services, rows = services_of(hosts), [host.row() for host in hosts]
    table = HostTable(rows, services, Aggregates())
    after = following(table, [rows[0], replace(rows[1], stats=Parsed({"a": "b"}))], services)
    assert after.coded["stats"].codes[0] == table.coded["stats"].codes[0]
    assert after.coded["stats"][1].value == {"a": "b"}
    assert after.coded["metrics"] is table.coded["metrics"]


SPARES = [Parsed({}), Parsed({"num_instances": "1"})]

changes = st.fixed_dictionaries(
    {},
    optional={
        "free_ram_mb": st.integers(-100, 100),
        "cpu_allocation_ratio": st.floats(0.5, 16),
        "stats": st.sampled_from(SPARES),
        "hypervisor_type": st.sampled_from(["QEMU", "ironic", None]),
        "host": st.sampled_from(["h0", "h1", "h2"]),
        "uuid": st.uuids().map(str),
    },
)


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), changes), max_size=4), max_size=4), st.data())
def test_a_following_table_is_the_same_as_one_made_anew(steps, data):
    hosts = [make_host(f"h{number}").aggregate(f"a{number % 2}") for number in range(4)]
    services, rows = services_of(hosts), [host.row() for host in hosts]
    aggregates = make_aggregates(hosts)
    table = HostTable(rows, services, aggregates)
    for step in steps:
        for position, columns in step:
            if position < len(rows):
                rows[position] = replace(rows[position], **columns)
        if data.draw(st.booleans(), label="heartbeat"):
            place = rows[0].cell_uuid, rows[0].host
            services = services | {
                place: replace(
                    services[place], last_seen_up=datetime(2026, 1, 1) + timedelta(seconds=len(step))
                )
            }
        if data.draw(st.booleans(), label="vanish"):
            rows = rows[:-1] or rows
        table = following(table, rows, services)
        assert_same(table, HostTable(rows, services, aggregates))


def assert_same(table, anew):
    assert table.rows == anew.rows
    assert table.services == anew.services
    assert table.row_of_uuid == anew.row_of_uuid
    assert table.rows_of_host == anew.rows_of_host
    for name in (*INTEGERS, *FLOATS, "service_disabled", "service_forced_down", "service_seen"):
        np.testing.assert_array_equal(table.numbers[name], anew.numbers[name])
    for name in (*CODED, *TEXTS, "aggregates"):
        assert list(table.coded[name]) == list(anew.coded[name])


def test_hosts_are_named_without_case():
    hosts = [make_host("Host1"), make_host("host2"), make_host("host3"), make_host("HOST1")]
    table = make_table(hosts)
    assert table.nodes_of_hosts(["hOST1", "host3"]) == {uuid_of(name) for name in ("Host1", "HOST1", "host3")}
    assert table.nodes_of_hosts([]) == table.nodes_of_hosts(["host4"]) == frozenset()
    later = make_table(hosts, previous=table)
    assert (
        later.hosts_in_lower_case is table.hosts_in_lower_case
    )  # names are lowered once, not at each request
