"""Judging hosts in groups gives each what it would get alone."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler import objects
from scheduler.filters.numa_topology_filter import NUMATopologyFilter
from scheduler.filters.pci_passthrough_filter import PciPassthroughFilter
from scheduler.pci.pools import from_flat
from tests.builders import make_host, make_view
from tests.unit.filters.asking import candidate, make_conf, make_request, verdicts
from tests.unit.numa.shapes import host as topology
from tests.unit.numa.shapes import host_cell

RULES = PCI, NUMA = PciPassthroughFilter(make_conf()), NUMATopologyFilter(make_conf())
TOPOLOGIES = [
    None,
    topology(host_cell(0)),
    topology(host_cell(0, cpus=1), host_cell(1)),
    topology(host_cell(0, threads=2), host_cell(1, cpus=1)),
]
GUEST = objects.InstanceNUMATopology(
    cells=[objects.InstanceNUMACell(id=0, cpuset=set(), pcpuset={0, 1}, memory=512, cpu_policy="dedicated")]
)


@st.composite
def hosts(draw, name):
    """Two pools with providers of the host's own, and candidates that take from them or from elsewhere."""
    counts = draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    flats = [
        {
            "vendor_id": "8086",
            "product_id": str(node),
            "numa_node": node,
            "count": count,
            "rp_uuid": f"{name}{node}",
        }
        for node, count in enumerate(counts)
    ]
    providers = st.sampled_from([f"{name}0", f"{name}1", "elsewhere"]).map(lambda provider: [provider])
    mappings = st.fixed_dictionaries(
        {"": st.just(["root"])}, optional={"a0": providers, "a1": providers, "b0": providers}
    )
    host = make_host(name).numa(draw(st.sampled_from(TOPOLOGIES)))
    host.pci(draw(st.sampled_from([None, from_flat(flats)]))).ratios(cpu=draw(st.sampled_from([1.0, 4.0])))
    return host.candidate(*(candidate(**mapping) for mapping in draw(st.lists(mappings, max_size=3))))


CLOUDS = st.integers(1, 5).flatmap(lambda n: st.tuples(*(hosts(f"h{number}") for number in range(n))))
NICS = st.builds(
    lambda alias, uuid, count, policy: objects.InstancePCIRequest(
        count=count, spec=[{"vendor_id": "8086"}], alias_name=alias, request_id=uuid, numa_policy=policy
    ),
    st.sampled_from(["nic", None]),
    st.sampled_from(["a", "b", None]),
    st.integers(1, 2),
    st.sampled_from([None, "required", "preferred"]),
)


def judge(rule, cloud, request):
    """For each host its verdict, the candidates left, and whether it got limits."""
    view = make_view(cloud)
    kept = verdicts(rule, view, request)
    return [
        (kept[index], [c.mappings for c in view.candidates(index)], bool(view.limits(index)))
        for index in range(len(view))
    ]


@given(CLOUDS, st.lists(NICS, max_size=2))
def test_as_each_alone(cloud, nics):
    request = make_request(
        numa_topology=GUEST, pci_requests=objects.InstancePCIRequests(requests=nics) if nics else None
    )
    for rule in RULES:
        alone = [outcome for host in cloud for outcome in judge(rule, [host], request)]
        assert judge(rule, cloud, request) == alone, rule.name


def test_a_host_that_is_rejected_for_its_cells_is_judged_for_its_devices_too():
    """An explanation says of each rule whether it rejects the host."""
    pool = {"vendor_id": "8086", "product_id": "0", "numa_node": 0, "count": 1}
    host = make_host("h").numa(topology(host_cell(0, cpus=1))).pci(from_flat([pool])).candidate(candidate())
    nic = objects.InstancePCIRequest(count=1, spec=[{"vendor_id": "8086"}], alias_name="nic", request_id="a")
    request = make_request(numa_topology=GUEST, pci_requests=objects.InstancePCIRequests(requests=[nic]))
    view = make_view([host])
    assert [verdicts(rule, view, request) for rule in (NUMA, PCI)] == [[False], [True]]
