import sys
import traceback
from types import ModuleType

import pytest

from scheduler.errors import ClassNotFound
from scheduler.rules import load_weighers
from scheduler.weights import builtin
from scheduler.weights.amounts import RAMWeigher
from scheduler.weights.base import BaseHostWeigher, HostWeigher, Scorer
from tests.builders import make_host, make_view
from tests.unit.weights.weighing import make_conf, scores


class ByName(BaseHostWeigher):
    """An operator's weigher in nova's style."""

    def _weigh_object(self, host_state, weight_properties):
        return float(host_state.host[1:])


class Raising(BaseHostWeigher):
    def _weigh_object(self, host_state, weight_properties):
        raise KeyError("oops")


def names(*paths):
    return [weigher.name for weigher in load_weighers.load(make_conf(weight_classes=list(paths)))]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["nova.scheduler.weights.all_weighers"], [cls.__name__ for cls in builtin.ALL]),
        (["nova.scheduler.weights.ram.RAMWeigher"], ["RAMWeigher"]),
        (["scheduler.weights.amounts.RAMWeigher"], ["RAMWeigher"]),
        (
            ["nova.scheduler.weights.cpu.CPUWeigher", "nova.scheduler.weights.ram.RAMWeigher"],
            ["CPUWeigher", "RAMWeigher"],
        ),
        (["nova.scheduler.weights.ram.RAMWeigher"] * 2, ["RAMWeigher", "RAMWeigher"]),
        ([f"{__name__}.ByName"], ["ByName"]),
    ],
)
def test_paths(paths, expected):
    assert names(*paths) == expected


@pytest.mark.parametrize("path", [f"nova.scheduler.weights.{module}" for module in (
    "affinity.ServerGroupSoftAffinityWeigher", "affinity.ServerGroupSoftAntiAffinityWeigher",
    "compute.BuildFailureWeigher", "cpu.CPUWeigher", "cross_cell.CrossCellWeigher", "disk.DiskWeigher",
    "hypervisor_version.HypervisorVersionWeigher", "image_props.ImagePropertiesWeigher", "io_ops.IoOpsWeigher",
    "metrics.MetricsWeigher", "num_instances.NumInstancesWeigher", "pci.PCIWeigher", "ram.RAMWeigher",
)])  # fmt: skip
def test_every_nova_path_leads_to_ours(path):
    assert names(path) == [path.rpartition(".")[2]]


@pytest.mark.parametrize("path", ["RAMWeigher", "", "no.such.Weigher", "os.path", "collections.OrderedDict"])
def test_paths_that_lead_nowhere_stop_the_start(path):
    with pytest.raises(ClassNotFound):
        names(path)


@pytest.mark.parametrize("path", ["RAMWeigher", "nova.scheduler.weights.ram.RamWeigher"])
def test_a_class_that_is_not_found_suggests_the_nearest(path):
    with pytest.raises(ClassNotFound, match=r"did you mean nova\.scheduler\.weights\.ram\.RAMWeigher\?"):
        names(path)


def scores_of(weigher):
    view = make_view([make_host("h1"), make_host("h2"), make_host("h4")])
    return scores([load_weighers.instantiate(make_conf(), weigher)], view).totals().tolist()


class Sooner(HostWeigher):
    """An operator's weigher over whole arrays that names no option."""

    def prepare(self, request):
        return FewInstances()


class FewInstances(Scorer):
    def weigh(self, hosts):
        return -hosts.numbers("num_instances").astype(float)


class ByOption(BaseHostWeigher):
    """Reads an option, which a class made without arguments can only do once it is made."""

    def _weigh_object(self, host_state, weight_properties):
        return float(host_state.host[1:])

    def weight_multiplier(self, host_state):
        return self.conf.filter_scheduler.ram_weight_multiplier


class OwnOptions(ByOption):
    def __init__(self):
        self.conf = make_conf(ram_weight_multiplier=3.0)


def test_without_an_option_the_multiplier_is_one():
    view = make_view([make_host("h1").num_instances(2), make_host("h2"), make_host("h3").num_instances(1)])
    weigher = load_weighers.instantiate(make_conf(), Sooner)
    assert scores([weigher], view).totals().tolist() == [0, 1, 0.5]


@pytest.mark.parametrize(("cls", "expected"), [(ByOption, [0, 1 / 3, 1]), (OwnOptions, [0, 1, 3])])
def test_per_host_weighers_have_the_options_unless_they_bring_their_own(cls, expected):
    assert scores_of(cls) == pytest.approx(expected)


def test_an_operators_weigher_is_weighed_and_normalised():
    assert scores_of(ByName) == pytest.approx([0, 1 / 3, 1])


def test_an_operators_weigher_that_raises_is_named():
    with pytest.raises(KeyError, match="oops") as caught:
        scores_of(Raising)
    assert "Raised by Raising" in "".join(traceback.format_exception(caught.value))


@pytest.fixture
def nova_base(monkeypatch):
    """nova's base class as it looks where nova is installed beside."""
    module = ModuleType("nova.scheduler.weights")

    class BaseHostWeigher:
        minval = maxval = None

        def weight_multiplier(self, host_state):
            return 1.0

        def weigh_objects(self, weighed, spec):
            return [self._weigh_object(one.obj, spec) for one in weighed]

    BaseHostWeigher.__module__ = module.__name__
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return BaseHostWeigher


def test_a_weigher_of_novas_base_class_works_unmodified(nova_base):
    class Theirs(nova_base):
        def _weigh_object(self, host_state, spec):
            return -float(host_state.host[1:])

    assert load_weighers.is_weigher(Theirs)
    assert scores_of(Theirs) == pytest.approx([1, 2 / 3, 0])


def test_a_multiplier_without_a_host_is_accepted(nova_base):
    class Old(nova_base):
        def weight_multiplier(self):
            return 2.0

        def _weigh_object(self, host_state, spec):
            return float(host_state.host[1:])

    assert scores_of(Old) == pytest.approx([0, 2 / 3, 2])


def test_built_in_weighers_are_as_they_are():
    assert type(load_weighers.instantiate(make_conf(), RAMWeigher)) is RAMWeigher
