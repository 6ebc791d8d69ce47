from dataclasses import replace

import numpy as np
import pytest

from scheduler.hosts.pending import PendingPlacements
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.request.query import Query
from scheduler.selection.mirrored_hosts import MirroredHosts
from tests.builders import CELL, OTHER_CELL, Instances, make_host, make_table, uuid_of
from tests.support.fake_placement import FakePlacement, FakeProvider


class NotingMirror(CandidateMirror):
    """A mirror of nodes with 4 GiB each; writes down which nodes changed."""

    def __init__(self, names):
        super().__init__(FakePlacement(*(FakeProvider(uuid_of(name)) for name in names)), lambda: 8.0)
        self.run_round()
        self.changed = []

    def nodes_changed(self, nodes):
        self.changed += nodes


def node(name):
    return make_host(name).ram(4096, 4096).vcpus(8).disk(10240, 10)


def query(*pairs, memory=1024):
    return [Query((("resources", f"MEMORY_MB:{memory}"), *pairs), "", None)]


def make(hosts, names=None):
    mirror = NotingMirror(names or [host.columns["host"] for host in hosts])
    return mirror, MirroredHosts(mirror, Instances(hosts), PendingPlacements())


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


def test_rows_of_a_view_are_those_of_the_table():
    hosts = [node("h1"), node("h2")]
    _, mirrored = make(hosts)
    view, _ = mirrored.find(query(), lambda: make_table(hosts), None)
    assert np.array_equal(view.numbers("free_ram_mb"), [4096, 4096])
