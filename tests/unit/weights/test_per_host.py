"""Weighing whole columns gives the totals that weighing one host after the other gives, to the last bit."""

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.errors import ComputeHostMetricNotFound
from scheduler.hosts.request_instances import Needs
from scheduler.objects import CellMapping, Destination, ImageMeta, ImageMetaProps, InstanceGroup
from scheduler.pci.pools import from_flat
from scheduler.weights import builtin
from tests.builders import CELL, OTHER_CELL, make_host, make_view
from tests.unit.weights import per_host
from tests.unit.weights.weighing import make_conf, make_spec, request_of, scores

NAMES = [cls.__name__ for cls in builtin.ALL]
UUIDS = ["A", "B", "C"]
SMALL = st.integers(0, 5)
AMOUNT = st.integers(-2, 100_000)
KEYS = sorted({option for _, _, _, option in per_host.PLAIN.values()})
METADATA = st.dictionaries(
    st.sampled_from(KEYS), st.sampled_from(["0", "0.3", "-1", " 2 ", "1e3", "x"]), max_size=3
)
PROPERTIES = st.dictionaries(
    st.sampled_from(["os_distro", "hw_machine_type"]), st.sampled_from(["x", "y"]), max_size=2
)


@st.composite
def hosts(draw, name):
    host = make_host(name).cell(draw(st.sampled_from([CELL, OTHER_CELL])))
    host.ram(draw(AMOUNT)).disk(draw(AMOUNT)).vcpus(
        draw(SMALL), draw(SMALL), draw(st.sampled_from([0.1, 4.0]))
    )
    host.io_ops(draw(SMALL)).num_instances(draw(SMALL)).failed_builds(draw(SMALL))
    host.hypervisor("QEMU", draw(st.sampled_from([0, 7001000, 8000000])))
    host.metrics(draw(st.dictionaries(st.sampled_from("ab"), st.sampled_from([None, 0.1, 7]))))
    counts = draw(st.lists(st.sampled_from([1, 7, 150]), max_size=2))
    host.pci(from_flat({"vendor_id": str(at), "count": count} for at, count in enumerate(counts)))
    for number, metadata in enumerate(draw(st.lists(METADATA, max_size=2))):
        host.aggregate(f"{name} {number}", metadata)
    for uuid in draw(st.sets(st.sampled_from(UUIDS))):
        host.holding(uuid, **draw(PROPERTIES))
    return host


@st.composite
def specs(draw):
    cell = CellMapping(uuid=draw(st.sampled_from([CELL, OTHER_CELL])))
    policy = draw(st.sampled_from(["affinity", "soft-affinity", "soft-anti-affinity"]))
    return make_spec(
        requested_destination=draw(
            st.sampled_from([None, Destination(cell=cell, allow_cross_cell_move=draw(st.booleans()))])
        ),
        instance_group=draw(st.sampled_from([None, InstanceGroup(policy=policy, members=["A", "B", "Z"])])),
        image=draw(st.sampled_from([None, ImageMeta(properties=ImageMetaProps(**draw(PROPERTIES)))])),
    )


OPTIONS = [
    {},
    {"metrics__weight_setting": ["a=0.5", "b=-1", "a=0"], "metrics__required": False},
    {"metrics__weight_setting": ["a=1"], "image_props_weight_multiplier": 0.7},
    {"image_props_weight_multiplier": 1.0, "image_props_weight_setting": ["os_distro=2"]},
    {"num_instances_weight_multiplier": -0.3, "cpu_weight_multiplier": 0.0, "ram_weight_multiplier": 1e6},
]
CLOUDS = st.integers(0, 5).flatmap(lambda count: st.tuples(*(hosts(f"h{at}") for at in range(count))))


def outcome(totals):
    try:
        return totals()
    except ComputeHostMetricNotFound:
        return "a metric is missing"


@pytest.fixture(scope="module")
def confs():
    return [make_conf(**overrides) for overrides in OPTIONS]


@given(cloud=CLOUDS, spec=specs(), which=st.sampled_from(range(len(OPTIONS))))
def test_as_the_plain_form(confs, cloud, spec, which):
    conf, view = confs[which], make_view(cloud)
    view.load(Needs(image_properties=True))
    states = view.hosts()
    for state, images in zip(states, view.image_properties(), strict=True):
        state.images = images

    def at_once():
        return scores([cls(conf) for cls in builtin.ALL], view, request_of(spec)).totals().tolist()

    assert outcome(at_once) == outcome(lambda: per_host.totals(NAMES, states, spec, conf))


def test_every_weigher_has_its_plain_form():
    assert list(per_host.PLAIN) == NAMES
