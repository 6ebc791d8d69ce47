"""The unit limits of the nodes of a cloud, of which a few are read."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np

from scheduler.placement import unit_limits
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.plain_query import CLASSES
from tests.builders import make_host, make_table, uuid_of
from tests.support.placement import Placement, make_node

VCPU = CLASSES.index("VCPU")

#: CPUs, those of them that are shared, overcommit, memory reserved, and what max_unit of memory is of the total.
HARDWARE = st.tuples(
    st.sampled_from([8, 64, 128]), st.sampled_from([1, 2]), st.sampled_from([1.0, 4.0]),
    st.sampled_from([0, 512, 8192]), st.sampled_from([1, 1, 1, 4]),
)  # fmt: skip


class Cloud:
    """Hosts as computes report them: name, CPUs, those shared of them, overcommit, memory, reserved, its limit."""

    def __init__(self, *hosts):
        self.most = {}
        providers = []
        for name, _, shared, ratio, memory, reserved, memory_limit in hosts:
            self.most[uuid_of(name)] = {"VCPU": shared, "MEMORY_MB": memory_limit}
            inventories = {
                "VCPU": {"total": shared, "allocation_ratio": ratio, "max_unit": shared},
                "MEMORY_MB": {"total": memory, "reserved": reserved, "max_unit": memory_limit},
            }
            providers.append(make_node(uuid_of(name), inventories=inventories))
        self.placement = Placement(*providers)
        made = [make_host(name).vcpus(cpus, 0).ram(memory, memory) for name, cpus, _, _, memory, *_ in hosts]
        self.table = make_table(made)
        self.mirror = CandidateMirror(
            self.placement, lambda: 0.0, totals=lambda uuids: self.table.totals(uuids, CLASSES)
        )

    @property
    def read(self):
        """How many nodes were read alone."""
        return sum(path.endswith("/inventories") for path in self.placement.asked)

    def wrong(self, nodes):
        """The limits that are not those of Placement, as (node, class)."""
        return [
            (uuid, name)
            for row, uuid in enumerate(nodes.uuids)
            for name, most in self.most[uuid].items()
            if nodes.max_unit[CLASSES.index(name), row] != most
        ]


def drawn(kinds, hosts):
    """Hosts of some kinds; the memory of each differs by some MiB."""
    made = []
    for number, (kind, odd) in enumerate(hosts):
        cpus, part, ratio, reserved, share = kinds[kind % len(kinds)]
        memory = 65536 * (1 + kind % len(kinds)) + odd
        made.append((f"h{number}", cpus, cpus // part, ratio, memory, reserved, memory // share))
    return made


@settings(max_examples=30, deadline=None)
@given(
    st.lists(HARDWARE, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4096)), min_size=40, max_size=300),
)
def test_the_limits_of_hosts_of_any_memory_are_those_of_their_hardware(kinds, hosts):
    kinds = [(*kind[:4], 1) for kind in kinds]
    cloud = Cloud(*drawn(kinds, hosts))
    cloud.mirror.read()
    assert cloud.wrong(cloud.mirror.known.nodes()) == []
    assert cloud.read <= len({kind[:3] for kind in kinds})


@settings(max_examples=30, deadline=None)
@given(
    st.lists(HARDWARE, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4096)), min_size=40, max_size=60),
)
def test_no_limit_of_memory_is_assumed_where_it_is_not_the_total(kinds, hosts):
    kinds = [(cpus + number, *others) for number, (cpus, *others) in enumerate(kinds)]  # one limit for each
    cloud = Cloud(*drawn(kinds, hosts))
    cloud.mirror.read()
    assert cloud.wrong(cloud.mirror.known.nodes()) == []


def test_a_round_reads_a_few_nodes_and_notes_their_limits_alone(monkeypatch):
    monkeypatch.setattr(unit_limits, "MOST_READ", 2)
    kinds = [(8, 1, 1.0, 0, 1), (16, 1, 1.0, 0, 1), (32, 1, 1.0, 0, 1)]
    cloud = Cloud(*drawn(kinds, [(number, number) for number in range(60)]))
    reads, known = [], []
    for _ in range(4):
        cloud.placement.asked.clear()
        cloud.mirror.run_round()
        reads.append(cloud.read)
        known.append(int(cloud.mirror.known.nodes().limits_known()[VCPU].sum()))
    assert (reads, known) == ([2, 1, 0, 0], [2, 3, 3, 3])
    assert cloud.wrong(cloud.mirror.known_nodes(())) == []


def test_hosts_of_equal_capacity_with_other_hardware_have_limits_of_their_own():
    small = [(f"small{number}", 8, 8, 2.0, 4096, 0, 4096) for number in range(20)]
    cloud = Cloud(*small, ("big", 16, 16, 1.0, 4096, 0, 4096))
    cloud.mirror.read()
    assert (cloud.read, cloud.wrong(cloud.mirror.known.nodes())) == (2, [])


def test_of_a_small_cloud_each_node_is_read():
    cloud = Cloud(*((f"h{number}", 8, 8, 1.0, 4096, 0, 4096 - number) for number in range(5)))
    cloud.mirror.read()
    assert (cloud.read, cloud.wrong(cloud.mirror.known.nodes())) == (5, [])


def test_a_node_that_nova_does_not_know_is_not_read():
    cloud = Cloud(*drawn([(8, 1, 1.0, 0, 1)], [(0, 0)] * 3))
    cloud.table = make_table([])
    cloud.mirror.run_round()
    assert cloud.read == 0
    assert not cloud.mirror.known_nodes(()).limits_known().any()


def test_a_node_that_is_gone_is_read_once_and_another_one_in_its_place():
    cloud = Cloud(*drawn([(8, 1, 1.0, 0, 1)], [(0, 0)] * 30))
    cloud.mirror.run_round()
    first = next(path for path in cloud.placement.asked if path.endswith("/inventories"))
    again = Cloud(*drawn([(8, 1, 1.0, 0, 1)], [(0, 0)] * 30))
    again.placement.failures[first] = again.placement.get("/resource_providers/nobody", None)
    again.placement.asked.clear()
    again.mirror.read()
    assert again.read == 2
    assert again.mirror.known.nodes().limits_known()[VCPU].all()


def test_amounts_stay_as_they_are():
    cloud = Cloud(*drawn([(8, 1, 1.0, 0, 1)], [(0, 0)] * 3))
    cloud.mirror.run_round()
    before = cloud.mirror.known.nodes()
    for provider in cloud.placement.providers.values():
        provider.used = {"VCPU": 2}
    cloud.mirror.limits.learn_all(cloud.mirror.known)
    assert np.array_equal(cloud.mirror.known.nodes().used, before.used)
