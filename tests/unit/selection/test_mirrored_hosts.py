from dataclasses import replace

import numpy as np
import pytest

from scheduler.hosts.pending import PendingPlacements
from scheduler.placement.errors import PlacementUnreachable
from scheduler.placement.mirror_lookups import FIRST_WAIT, MOST_LOOKED_UP
from scheduler.placement.mirror_reader import WIDE_INTERVAL
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.request.query import Query
from scheduler.selection.mirrored_hosts import DISABLED, MirroredHosts
from tests.builders import CELL, OTHER_CELL, HostBuilder, Instances, make_host, make_table, uuid_of
from tests.support.clock import Clock
from tests.support.placement import Placement, make_node


class NotingMirror(CandidateMirror):
    """A mirror of nodes with 4 GiB each; writes down which nodes changed."""

    def __init__(self, names):
        providers = (make_node(uuid_of(name)) for name in names)
        self.placement, self.time, self.changed = Placement(*providers), Clock(), []
        super().__init__(self.placement, lambda: 8.0, self.time)
        self.run_round()
        self.time.now += 1.0

    def nodes_changed(self, nodes):
        self.changed += nodes


def node(name):
    return make_host(name).ram(4096, 4096).vcpus(8).disk(10240, 10)


def query(*pairs, memory=1024):
    return [Query((("resources", f"MEMORY_MB:{memory}"), *pairs), "", None)]


def make(hosts, names=None, **options):
    mirror = NotingMirror(names or [host.columns["host"] for host in hosts])
    return mirror, MirroredHosts(mirror, Instances(hosts), PendingPlacements(), **options)


def names(found):
    view, _ = found
    return [row.host for row in view.rows]


def test_hosts_come_in_the_order_of_the_mirror_with_a_candidate_of_their_own():
    hosts = [node("h1"), node("h2")]
    _, mirrored = make(hosts, ["h2", "h1"])
    found = mirrored.find(query(), lambda: make_table(hosts), None)
    assert names(found) == ["h2", "h1"]
    view, answer = found
    (candidate,) = view.candidates(0)
    assert candidate.allocations == {uuid_of("h2"): {"resources": {"MEMORY_MB": 1024}}}
    assert view.candidates(0) is view.candidates(0)
    assert answer.usage(uuid_of("h2"))["MEMORY_MB"].capacity == 4096


def test_nodes_that_the_table_lacks_are_left_out():
    hosts = [node("h1")]
    _, mirrored = make(hosts, ["unknown", "h1"])
    assert names(mirrored.find(query(), lambda: make_table(hosts), None)) == ["h1"]


def test_the_table_is_not_read_for_a_query_that_the_mirror_cannot_answer():
    _, mirrored = make([node("h1")])
    assert mirrored.find(query(("in_tree", "x")), lambda: pytest.fail("read"), None) is None


def test_only_hosts_of_the_cell_are_found():
    hosts = [node("h1"), node("h2").cell(OTHER_CELL)]
    _, mirrored = make(hosts)
    assert names(mirrored.find(query(), lambda: make_table(hosts), OTHER_CELL)) == ["h2"]
    assert names(mirrored.find(query(), lambda: make_table(hosts), CELL)) == ["h1"]


def test_no_instance_is_larger_than_its_host():
    hosts = [node("h1").set(total_usable_ram_mb=512), node("h2")]
    _, mirrored = make(hosts)
    assert names(mirrored.find(query(), lambda: make_table(hosts), None)) == ["h2"]


def test_hosts_that_lost_instances_are_read_again():
    before = make_table([node("h1").num_instances(2), node("h2").num_instances(2)])
    mirror, mirrored = make([node("h1"), node("h2")])
    mirrored.find(query(), lambda: before, None)
    rows = [row if row.host == "h1" else _with_instances(row, 1) for row in before.rows]
    services = {
        (row.cell_uuid, row.host): service for row, service in zip(before.rows, before.services, strict=True)
    }
    after = type(before)(rows, services, before.aggregates, previous=before)
    mirrored.find(query(), lambda: after, None)
    assert mirror.changed == [uuid_of("h2")]
    mirrored.find(query(), lambda: after, None)
    assert mirror.changed == [uuid_of("h2")]


def _with_instances(row, number):
    return replace(row, num_instances=number)


# -- nodes of which the table knows more than the mirror -----------------------------------------------------

ZONE = uuid_of("aggregate az-a")
IN_ZONE = ("member_of", ZONE)
OPEN = ("required", f"!{DISABLED}")


def state_of(name):
    return f"/resource_providers/{uuid_of(name)}/inventories"


def come_up(mirror, name, **fields):
    """Let Placement have a node since a moment ago."""
    mirror.placement.providers[uuid_of(name)] = make_node(uuid_of(name), **fields)
    mirror.placement.asked.clear()


def newer(**options):
    """A mirror of h1, and a table that has h2 too."""
    hosts = [node("h1").az("a"), node("h2").az("a")]
    mirror, mirrored = make(hosts, ["h1"], looks_up=True)
    mirror.placement.providers[uuid_of("h1")].aggregates = {ZONE}
    return hosts, mirror, mirrored


def test_a_node_that_came_up_since_the_last_round_is_found():
    hosts, mirror, mirrored = newer()
    come_up(mirror, "h2")
    assert names(mirrored.find(query(), lambda: make_table(hosts), None)) == ["h1", "h2"]
    mirror.placement.asked.clear()
    assert names(mirrored.find(query(), lambda: make_table(hosts), None)) == ["h1", "h2"]
    assert mirror.placement.asked == []


def test_a_node_that_placement_lacks_is_read_once_and_later_and_later():
    hosts, mirror, mirrored = newer()
    readings = []
    for _ in range(200):
        mirror.placement.asked.clear()
        mirrored.find(query(), lambda: make_table(hosts), None)
        readings.append(mirror.placement.asked.count(state_of("h2")))
        mirror.time.now += 0.25
    assert readings[:9] == [1, 0, 0, 0, 1, 0, 0, 0, 0]
    assert sum(readings) == 6


@pytest.mark.parametrize(
    ("change", "pairs"),
    [
        (HostBuilder.disabled, ()),
        (HostBuilder.forced_down, ()),
        (lambda host: host.cell(OTHER_CELL), ()),
        (lambda host: host.az("b"), (IN_ZONE,)),
    ],
    ids=["disabled", "forced down", "of another cell", "of another zone"],
)
def test_a_node_that_the_request_cannot_have_is_not_read(change, pairs):
    hosts, mirror, mirrored = newer()
    hosts[1] = change(node("h2"))
    come_up(mirror, "h2")
    assert names(mirrored.find(query(*pairs), lambda: make_table(hosts), CELL)) == ["h1"]
    assert state_of("h2") not in mirror.placement.asked


def test_few_nodes_are_read_for_one_request():
    hosts = [node("h1"), *(node(f"new{number}") for number in range(3 * MOST_LOOKED_UP))]
    mirror, mirrored = make(hosts, ["h1"], looks_up=True)
    for number in range(3 * MOST_LOOKED_UP):
        come_up(mirror, f"new{number}")
    for number in (1, 2, 3, 3):
        found = names(mirrored.find(query(), lambda: make_table(hosts), None))
        assert len(found) == 1 + number * MOST_LOOKED_UP


def test_a_node_that_was_put_into_the_zone_since_the_last_round_is_found():
    hosts, mirror, mirrored = newer()
    come_up(mirror, "h2")
    mirror.run_round()
    mirror.time.now += 1.0
    assert names(mirrored.find(query(IN_ZONE), lambda: make_table(hosts), None)) == ["h1"]
    mirror.placement.providers[uuid_of("h2")].change(aggregates={ZONE})
    mirror.time.now += FIRST_WAIT
    assert names(mirrored.find(query(IN_ZONE), lambda: make_table(hosts), None)) == ["h1", "h2"]


def test_a_node_that_was_enabled_since_the_last_round_is_found():
    hosts, mirror, mirrored = newer()
    come_up(mirror, "h2", traits={DISABLED})
    mirror.run_round()
    mirror.placement.providers[uuid_of("h2")].change(traits=set())
    assert names(mirrored.find(query(OPEN), lambda: make_table(hosts), None)) == ["h1", "h2"]


def test_full_nodes_are_not_read_for_a_request():
    hosts = [node("h1"), node("h2")]
    mirror, mirrored = make(hosts, ["h1"], looks_up=True)
    come_up(mirror, "h2", used={"MEMORY_MB": 4096})
    mirror.time.now += WIDE_INTERVAL
    mirror.run_round()
    mirror.placement.asked.clear()
    assert names(mirrored.find(query(), lambda: make_table(hosts), None)) == ["h1"]
    assert mirror.placement.asked == []


def test_without_placement_the_hosts_that_are_known_are_offered():
    hosts, mirror, mirrored = newer()
    mirror.placement.failures[state_of("h2")] = PlacementUnreachable("down")
    assert names(mirrored.find(query(), lambda: make_table(hosts), None)) == ["h1"]


def test_nothing_is_read_for_a_cloud_as_it_was():
    hosts = [node("h1"), node("h2")]
    mirror, mirrored = make(hosts, ["h1"])
    come_up(mirror, "h2")
    assert names(mirrored.find(query(), lambda: make_table(hosts), None)) == ["h1"]
    assert mirror.placement.asked == []


def test_rows_of_a_view_are_those_of_the_table():
    hosts = [node("h1"), node("h2")]
    _, mirrored = make(hosts)
    view, _ = mirrored.find(query(), lambda: make_table(hosts), None)
    assert np.array_equal(view.numbers("free_ram_mb"), [4096, 4096])
