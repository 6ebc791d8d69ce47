"""What nova-api makes of flavors; tests/integration/interop compares random ones with nova's own."""

import pytest

from scheduler import errors
from scheduler.numa.guest import LARGE
from scheduler.operators.snapshot.as_nova_api import guest_topology
from scheduler.request.flavor_and_image import FlavorAndImage
from tests.unit.request.builders import make_spec


def made(extra_specs, image=None, vcpus=4):
    return guest_topology(FlavorAndImage(make_spec(extra_specs, image, sizes={"vcpus": vcpus})))


def cells(topology):
    return [(cell.cpuset, cell.pcpuset, cell.memory) for cell in topology.cells]


FLOATING, PINNED = ([({0, 1, 2, 3}, set(), 4096)], [(set(), {0, 1, 2, 3}, 4096)])


@pytest.mark.parametrize(
    ("extra_specs", "expected"),
    [
        ({"hw:numa_nodes": "1"}, FLOATING),
        ({"hw:mem_page_size": "large"}, FLOATING),
        ({"hw:pmem": "small"}, FLOATING),
        ({"hw:cpu_policy": "dedicated"}, PINNED),
        ({"resources:PCPU": "4"}, PINNED),
        ({"hw:numa_nodes": "2"}, [({0, 1}, set(), 2048), ({2, 3}, set(), 2048)]),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"}, [({0}, {1, 2, 3}, 4096)]),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "1-3"},
            [({0}, {1, 2, 3}, 4096)],
        ),
        (
            {
                "hw:numa_nodes": "2",
                "hw:numa_cpus.0": "0",
                "hw:numa_cpus.1": "1-3",
                "hw:numa_mem.0": "1024",
                "hw:numa_mem.1": "3072",
            },
            [({0}, set(), 1024), ({1, 2, 3}, set(), 3072)],
        ),
    ],
    ids=str,
)
def test_cpus_and_memory_of_the_cells(extra_specs, expected):
    assert cells(made(extra_specs)) == expected


@pytest.mark.parametrize("extra_specs", [{}, {"hw:cpu_policy": "shared"}, {"resources:VCPU": "4"}], ids=str)
def test_a_guest_without_a_topology(extra_specs):
    assert made(extra_specs) is None


def test_policies_and_page_size_are_those_of_every_cell():
    specs = {"hw:numa_nodes": "2", "hw:mem_page_size": "large", "hw:cpu_policy": "dedicated"}
    topology = made({**specs, "hw:cpu_thread_policy": "isolate", "hw:emulator_threads_policy": "share"})
    assert topology.emulator_threads_policy == "share"
    assert {(one.pagesize, one.cpu_policy, one.cpu_thread_policy) for one in topology.cells} == {
        (LARGE, "dedicated", "isolate")
    }


def test_an_image_may_choose_among_the_large_pages():
    assert made({"hw:mem_page_size": "any"}, {"hw_mem_page_size": "1GB"}).cells[0].pagesize == 1048576


@pytest.mark.parametrize(
    ("extra_specs", "image"),
    [
        ({}, {"hw_mem_page_size": "large"}),
        ({"hw:mem_page_size": "small"}, {"hw_mem_page_size": "large"}),
        ({"hw:mem_page_size": "huge"}, None),
        ({"hw:locked_memory": "yes"}, None),
        ({"hw:numa_nodes": "3"}, None),
        ({"hw:numa_nodes": "none"}, None),
        ({"hw:numa_nodes": "1"}, {"hw_numa_nodes": 2}),
        ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3"}, None),
        ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-2", "hw:numa_mem.0": "4096"}, None),
        ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "4095"}, None),
        ({"hw:cpu_thread_policy": "isolate"}, None),
        ({"hw:cpu_policy": "mixed"}, None),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-3"}, None),
        ({"hw:cpu_policy": "dedicated", "hw:cpu_dedicated_mask": "0"}, None),
        ({"hw:cpu_policy": "dedicated", "resources:PCPU": "4"}, None),
        ({"resources:VCPU": "2", "resources:PCPU": "2"}, None),
        ({"resources:PCPU": "2"}, None),
        ({"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}, None),
        ({"hw:cpu_policy": "dedicated", "hw:cpu_realtime": "yes"}, None),
    ],
    ids=str,
)
def test_what_nova_api_refuses_is_refused(extra_specs, image):
    with pytest.raises(errors.InvalidRequest):
        made(extra_specs, image)
