from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from scheduler.operators.plan.balance import PACK, SPREAD, balance
from scheduler.operators.plan.moves import Mover
from tests.builders import uuid_of
from tests.unit.operators.plan.clouds import MadeCloud, flavor, node
from tests.unit.operators.plan.test_survive import HOSTS, INSTANCES, made


def weight(raw, multiplier):
    """What a weigher of amounts adds: its raw weights in units of the largest (spec: filters-and-weighers 1.9)."""
    return np.zeros(len(raw)) if not raw.max() else multiplier * raw / raw.max()


def gain(cloud, index, target):
    """The gain of a move, worked out of amounts: memory, CPUs, disk and instances of hosts with room."""
    table, instances = cloud.snapshot.table, cloud.snapshot.instances
    wanted = cloud.snapshot.requests.flavor(int(instances.specs[index]))
    free = table.numbers["free_ram_mb"].astype(float)
    cpus = table.numbers["vcpus_total"] * table.numbers["cpu_allocation_ratio"] - table.numbers["vcpus_used"]
    disk = table.numbers["free_disk_mb"].astype(float)
    source = int(cloud.places.rows[index])
    free[source] += wanted.memory_mb
    cpus[source] += wanted.vcpus
    disk[source] += (wanted.root_gb + wanted.ephemeral_gb) * 1024
    room = np.flatnonzero((free >= wanted.memory_mb) & (cpus >= wanted.vcpus))
    total = weight(free[room], 1.0) + weight(cpus[room], 1.0) + weight(disk[room], 1.0)
    by_row = dict(zip(room.tolist(), total.tolist(), strict=True))
    return by_row[target] - by_row[source]


@settings(max_examples=30, deadline=None)
@given(
    HOSTS,
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(["large", "middle", "small"]), st.none()), max_size=10
    ),
)
def test_each_move_gains_what_the_weighers_say_and_is_allowed_then(rams, instances):
    cloud = made(rams, instances)
    plan = balance(cloud.planned(), SPREAD, 4)
    again = cloud.planned()
    snapshot = again.snapshot
    snapshot.load_requests(range(len(snapshot.instances)))
    mover = Mover(again)
    row_of = {row.host: number for number, row in enumerate(snapshot.table.rows)}
    for move in plan["moves"]:
        index = snapshot.instances.index_of[move["instance"]]
        expected = gain(again, index, row_of[move["to"]])
        assert move["gain"] == pytest.approx(expected, abs=1e-5)
        assert expected > 0
        assert row_of[move["to"]] in again.rank(mover.request([index]), move["instance"]).hosts.table_rows
        done, stuck = mover.move_all([index])
        assert [each.target for each in done] == [row_of[move["to"]]]
        assert stuck == []


@settings(max_examples=30, deadline=None)
@given(HOSTS, INSTANCES)
def test_emptied_hosts_are_empty_and_each_move_is_allowed_then(rams, instances):
    cloud = made(rams, instances)
    plan = balance(cloud.planned(), PACK, 8)
    again = cloud.planned()
    snapshot = again.snapshot
    snapshot.load_requests(range(len(snapshot.instances)))
    mover = Mover(again)
    row_of = {row.host: number for number, row in enumerate(snapshot.table.rows)}
    for move in plan["moves"]:
        index = snapshot.instances.index_of[move["instance"]]
        spec = mover.request([index])
        assert row_of[move["to"]] in again.rank(spec.obj_clone(), move["instance"]).hosts.table_rows
        again.closed[:] = True
        again.closed[row_of[move["to"]]] = False
        assert mover.move_all([index])[1] == []
        again.closed[:] = False
    for host in plan["emptied"]:
        assert row_of[host] not in again.places.rows
    assert plan["after"]["empty_hosts"] == plan["before"]["empty_hosts"] + len(plan["emptied"])
    assert len(plan["moves"]) <= 8


def test_the_largest_gain_comes_first():
    cloud = MadeCloud(node("full"), node("empty"))
    cloud.put("small", "full", flavor("small", ram=512)).put("large", "full", flavor("large", ram=4096))
    plan = balance(cloud.planned(), SPREAD, 1)
    (move,) = plan["moves"]
    assert move["to"] == "empty"
    assert plan["after"]["memory_used_deviation_percent"] < plan["before"]["memory_used_deviation_percent"]


def test_nothing_is_moved_that_nova_cannot_move():
    cloud = (
        MadeCloud(node("full"), node("empty")).put("i", "full", state="error").put("j", "full", state="error")
    )
    assert balance(cloud.planned(), SPREAD, 5)["moves"] == []
    assert balance(cloud.planned(), PACK, 5)["moves"] == []


def test_hosts_are_emptied_with_the_fewest_moves():
    cloud = MadeCloud(node("h1"), node("h2"), node("h3"))
    for number in range(4):
        cloud.put(f"a{number}", "h1")
    cloud.put("b", "h2").put("c0", "h3").put("c1", "h3")
    plan = balance(cloud.planned(), PACK, 1)
    assert plan["emptied"] == ["h2"]
    assert [move["instance"] for move in plan["moves"]] == [uuid_of("b")]
