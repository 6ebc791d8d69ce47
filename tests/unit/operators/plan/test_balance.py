from hypothesis import given
import pytest

from scheduler.operators.plan.balance import PACK, SPREAD, balance
from scheduler.operators.plan.moves import Mover
from tests.builders import uuid_of
from tests.support.campaigns import examples
from tests.unit.operators.plan.clouds import MadeCloud, flavor, lines, node
from tests.unit.operators.plan.test_survive import HOSTS, INSTANCES, made


def deviation(cloud):
    numbers = cloud.snapshot.table.numbers
    return float((1 - numbers["free_ram_mb"] / numbers["total_usable_ram_mb"]).std())


def lowest(cloud, moved):
    """The lowest deviation of memory that one move leaves: every instance tried on every other host."""
    snapshot, mover, found = cloud.snapshot, Mover(cloud), deviation(cloud)
    for index in set(range(len(snapshot.instances))) - moved:
        for row in range(len(snapshot.table)):
            mark, closed = cloud.mark, cloud.closed.copy()
            cloud.closed[:] = True
            cloud.closed[row] = False
            mover.move_all([index])
            found = min(found, deviation(cloud))
            cloud.closed[:] = closed
            cloud.rewind(mark)
    return found


@examples(12)
@given(HOSTS, INSTANCES)
def test_each_move_lowers_the_deviation_most_of_all_that_the_filters_allow(rams, instances):
    cloud = made(rams, instances)
    plan = balance(cloud.planned(), SPREAD, 4)
    again = cloud.planned()
    snapshot = again.snapshot
    snapshot.load_requests(range(len(snapshot.instances)))
    mover, moved = Mover(again), set()
    row_of = {row.host: number for number, row in enumerate(snapshot.table.rows)}
    for move in plan.moves:
        index = snapshot.instances.index_of[move.instance]
        best, before = lowest(again, moved), deviation(again)
        again.closed[:] = True
        again.closed[row_of[move.to]] = False
        assert mover.move_all([index])[1] == []
        again.closed[:] = False
        moved.add(index)
        assert deviation(again) == pytest.approx(best, abs=1e-9)
        assert move.gain == pytest.approx(100 * (before - best), abs=1e-5)
        assert move.gain > 0
    if len(plan.moves) < 4:
        assert lowest(again, moved) == pytest.approx(deviation(again), abs=1e-6)


@examples(12)
@given(HOSTS, INSTANCES)
def test_emptied_hosts_are_empty_and_each_move_is_allowed_then(rams, instances):
    cloud = made(rams, instances)
    plan = balance(cloud.planned(), PACK, 8)
    again = cloud.planned()
    snapshot = again.snapshot
    snapshot.load_requests(range(len(snapshot.instances)))
    mover = Mover(again)
    row_of = {row.host: number for number, row in enumerate(snapshot.table.rows)}
    for move in plan.moves:
        index = snapshot.instances.index_of[move.instance]
        spec = mover.request([index])
        assert row_of[move.to] in again.rank(spec.obj_clone(), move.instance).hosts.table_rows
        again.closed[:] = True
        again.closed[row_of[move.to]] = False
        assert mover.move_all([index])[1] == []
        again.closed[:] = False
    for host in plan.emptied:
        assert row_of[host] not in again.places.rows
    assert plan.after.empty_hosts == plan.before.empty_hosts + len(plan.emptied)
    assert len(plan.moves) <= 8


def test_the_largest_instance_comes_first_if_it_helps_most():
    cloud = MadeCloud(node("full"), node("empty"))
    cloud.put("small", "full", flavor("small", ram=512)).put("large", "full", flavor("large", ram=4096))
    plan = balance(cloud.planned(), SPREAD, 1)
    (move,) = plan.moves
    assert move.to == "empty"
    assert plan.after.memory_used_deviation_percent < plan.before.memory_used_deviation_percent


def test_nothing_is_moved_that_nova_cannot_move():
    cloud = (
        MadeCloud(node("full"), node("empty")).put("i", "full", state="error").put("j", "full", state="error")
    )
    assert balance(cloud.planned(), SPREAD, 5).moves == []
    assert balance(cloud.planned(), PACK, 5).moves == []


def test_a_plan_says_what_is_copied_and_which_instances_are_down():
    cloud = MadeCloud(node("full"), node("empty"))
    cloud.put("on", "full", flavor("m1", ram=3072, disk=20)).put("off", "full", state="stopped")
    cloud.put("volume", "full", flavor("v", ram=2048, disk=30), is_bfv=True)
    plan = balance(cloud.planned(), PACK, 5)
    assert plan.moves == []  # packing leaves one host with instances
    found = balance(cloud.planned(), SPREAD, 1)
    (move,) = found.moves
    assert (move.memory_gib, move.disk_gib, move.down) == (3, 20, False)
    assert "to copy: 3 GiB of memory, 20 GiB of disk unless hosts share it" in lines(found)[1]


def test_hosts_are_emptied_with_the_fewest_moves():
    cloud = MadeCloud(node("h1"), node("h2"), node("h3"))
    for number in range(4):
        cloud.put(f"a{number}", "h1")
    cloud.put("b", "h2").put("c0", "h3").put("c1", "h3")
    plan = balance(cloud.planned(), PACK, 1)
    assert plan.emptied == ["h2"]
    assert [move.instance for move in plan.moves] == [uuid_of("b")]
