"""What helps according to a real Placement."""

from scheduler import objects
from scheduler.decisions.constraint_names import RequestNames
from scheduler.decisions.providers import PlacementQuestions
from scheduler.decisions.relaxation import RelaxationSearch

NAMES = RequestNames(objects.RequestSpec(), ())


def relaxations(client, query):
    return [each.text for each in RelaxationSearch(PlacementQuestions(client)).find(query.querystring, NAMES)]


def test_a_trait_that_no_host_has(cloud, client):
    cloud.make(3)
    query = cloud.query("resources=VCPU%3A2&required=HW_GPU_API_VULKAN")
    assert relaxations(client, query) == ["without required trait HW_GPU_API_VULKAN: 3 hosts"]


def test_an_amount_that_no_host_has_is_named_with_what_there_is(cloud, client):
    cloud.make(2)
    query = cloud.query("resources=VCPU%3A2%2CMEMORY_MB%3A8192")
    # hosts of other tests may have as much, in another aggregate
    assert (
        "without 8192 MEMORY_MB: 2 hosts "
        "(MEMORY_MB capacity 4096 on 2 hosts: total 4096, reserved 0, allocation_ratio 1)"
    ) in relaxations(client, query)


def test_two_constraints_of_which_each_leaves_no_host(cloud, client):
    cloud.make(1)
    query = cloud.query("resources=VCPU%3A2%2CMEMORY_MB%3A8192&required=HW_GPU_API_VULKAN")
    expected = "without required trait HW_GPU_API_VULKAN and 8192 MEMORY_MB: 1 host"
    assert [text for text in relaxations(client, query) if text.startswith(expected)]
