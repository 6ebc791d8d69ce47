"""Operators' own filters, in each of the styles: what they may say, and what becomes of it."""

import logging
import traceback
from types import SimpleNamespace

import numpy as np
import pytest

from scheduler.errors import ClassNotFound, HostFilterNotFound
from scheduler.filters.amount_filters import RamFilter
from scheduler.filters.base import BaseFilter, BaseHostFilter, HostFilter, Judge
from scheduler.filters.chain import FilterChain
from scheduler.filters.compute_filter import ComputeFilter
from scheduler.hosts.request_instances import Needs
from scheduler.placement.answer import AllocationCandidate
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rules import load_filters
from scheduler.rules.load_filters import CandidateFilterMixin
from tests.builders import make_host, make_view
from tests.unit.filters.asking import make_conf, make_request, make_spec

REBUILD = {"hints": {"_nova_check_type": ["rebuild"]}, "force_hosts": ["h1"]}


class NotFirst(BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        return host_state.host != "h1"


class OnRebuild(NotFirst):
    RUN_ON_REBUILD = True


class Once(NotFirst):
    run_filter_once_per_request = True


class OddIndices(NotFirst):
    def run_filter_for_index(self, index):
        return index % 2 == 1


class Whole(BaseHostFilter):
    """Decides over the list, also on rebuilds; and does with its list what it likes."""

    def filter_all(self, filter_obj_list, spec_obj):
        filter_obj_list.reverse()
        yield filter_obj_list.pop()


class Stop(BaseHostFilter):
    def filter_all(self, filter_obj_list, spec_obj):
        return None


class Everybody(BaseFilter):
    """Of the base of bases: nothing is implemented."""


class Array(HostFilter):
    def prepare(self, request):
        return MuchRam()


class MuchRam(Judge):
    def passes(self, hosts):
        return hosts.numbers("free_ram_mb") > 1000


class ArrayStop(HostFilter):
    def prepare(self, request):
        return NoHost()


class NoHost(Judge):
    def passes(self, hosts):
        return None


class Raising(BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        raise KeyError("oops")


class Picky(BaseHostFilter, CandidateFilterMixin):
    def host_passes(self, host_state, filter_properties):
        return self.filter_candidates(
            host_state, lambda candidate: candidate.get("mappings") == {"": ["good"]}
        )


class _Private(BaseHostFilter):
    pass


def some_filters():
    return [NotFirst, dict]


def hosts():
    return make_view([make_host("h1").ram(512), make_host("h2").ram(2048), make_host("h3").ram(4096)])


def left(*classes, index=0, changed=None, view=None, **fields):
    chain = FilterChain([load_filters.instantiate(make_conf(), cls) for cls in classes])
    indices = None if changed is None else np.array([changed])
    filtered = chain.prepare(make_request(**fields)).run(hosts() if view is None else view, index, indices)
    return [row.host for row in filtered.hosts.rows]


@pytest.mark.parametrize(
    ("classes", "fields", "expected"),
    [
        ([NotFirst], {}, ["h2", "h3"]),
        ([NotFirst], REBUILD, ["h1", "h2", "h3"]),
        ([OnRebuild], REBUILD, ["h2", "h3"]),
        ([Once], {"index": 1}, ["h1", "h2", "h3"]),
        ([OddIndices], {}, ["h1", "h2", "h3"]),
        ([OddIndices], {"index": 1}, ["h2", "h3"]),
        ([Whole], {}, ["h1"]),
        ([Whole], REBUILD, ["h1"]),
        ([NotFirst], {"index": 1, "changed": 1}, ["h2", "h3"]),
        ([Stop], {}, []),
        ([Stop], {"index": 1, "changed": 1}, []),
        ([ArrayStop], {}, []),
        ([ArrayStop], {"index": 1, "changed": 1}, []),
        ([Everybody], {}, ["h1", "h2", "h3"]),
        ([Array, NotFirst], {}, ["h2", "h3"]),
        ([Everybody] * 200, {}, ["h1", "h2", "h3"]),
    ],
)
def test_who_is_left(classes, fields, expected):
    assert left(*classes, **fields) == expected


@pytest.mark.parametrize("stop", [Stop, ArrayStop])
def test_after_a_stop_no_filter_is_asked_and_no_summary_is_logged(stop, caplog):
    caplog.set_level(logging.DEBUG, "nova.filters")
    assert left(stop, Raising) == []
    assert f"Filter {stop.__name__} ends the filtering" in caplog.text
    assert "Filtering removed all hosts" not in caplog.text


def test_two_hundred_generators_inside_each_other():
    rule, names = Everybody(), iter(range(3))
    for _ in range(200):
        names = rule.filter_all(names, None)
    assert list(names) == [0, 1, 2]


def test_nothing_is_asked_before_the_generator_is_read():
    Raising().filter_all([object()], None)


def test_no_request_is_no_rebuild():
    assert list(OnRebuild().filter_all([make_view([make_host("h2")]).host(0)], None))


def test_candidates_that_a_filter_leaves_are_what_is_left_for_the_others():
    good, bad = (AllocationCandidate.of("r", ("r",), {}, {"": [name]}) for name in ("good", "bad"))
    view = make_view([make_host("h1").candidate(good, bad), make_host("h2").candidate(bad)])
    assert left(Picky, view=view) == ["h1"]
    assert [list(view.candidates(index)) for index in (0, 1)] == [[good], []]


class Unready(HostFilter):
    def prepare(self, request):
        raise KeyError("oops")


class Unexplained(HostFilter):
    def prepare(self, request):
        return RejectsAll()


class RejectsAll(Judge):
    instance_uuids = ("i1",)

    def passes(self, hosts):
        return hosts.count_instances(["i1"]) > 9

    def reason(self, host):
        raise KeyError("oops")


class Needy(Unexplained):
    needs = frozenset({"instances"})


def test_what_an_operators_filter_declares_is_what_the_chain_needs():
    chain = FilterChain([load_filters.instantiate(make_conf(), Needy)]).prepare(make_request())
    assert chain.needs == Needs(frozenset({"i1"}))


def test_what_a_reason_raises_names_the_class():
    view = hosts()
    chain = FilterChain([load_filters.instantiate(make_conf(), Needy)]).prepare(make_request())
    view.load(chain.needs)
    with pytest.raises(KeyError, match="oops") as caught:
        list(chain.run(view).reasons())
    assert "Raised by Needy" in "".join(traceback.format_exception(caught.value))


class Sees(BaseHostFilter):
    """Keeps all, and notes what the RequestSpec says."""

    seen = ()

    def host_passes(self, host_state, filter_properties):
        Sees.seen += ((filter_properties.instance_uuid, filter_properties.instance_group.hosts),)
        return True


def test_classes_of_operators_see_on_the_spec_what_was_chosen_before(monkeypatch):
    monkeypatch.setattr(Sees, "seen", ())
    spec = make_spec(group={"policy": "affinity", "members": ["a", "b"], "hosts": []})
    request = SchedulingRequest.of(spec, ["a", "b"])
    chain = FilterChain([load_filters.instantiate(make_conf(), Sees)]).prepare(request)
    view = make_view([make_host("h1")])
    chain.run(view)
    request.progress.instance_uuid, request.progress.group_hosts = "b", ("h1",)
    chain.run(view, 1, np.array([0]))
    assert Sees.seen == (("a", []), ("b", ["h1"]))


@pytest.mark.parametrize("cls", [Raising, Unready])
def test_what_a_filter_raises_stays_what_it_is_and_the_log_names_the_class(cls):
    with pytest.raises(KeyError, match="oops") as caught:
        left(cls)
    assert f"Raised by {cls.__name__}" in "".join(traceback.format_exception(caught.value))


class Roomy(BaseHostFilter):
    """Reads an option, which a class made without arguments can only do once it is made."""

    def host_passes(self, host_state, spec_obj):
        return host_state.free_ram_mb >= self.conf.filter_scheduler.max_io_ops_per_host


class OwnOptions(Roomy):
    def __init__(self):
        self.conf = SimpleNamespace(filter_scheduler=SimpleNamespace(max_io_ops_per_host=4096))


class LateOptions(OwnOptions):
    """Reads its options at the first use, as a class written for nova may do."""

    conf = None

    def __init__(self):
        pass

    def host_passes(self, host_state, spec_obj):
        if self.conf is None:
            OwnOptions.__init__(self)
        return super().host_passes(host_state, spec_obj)


class Property(OwnOptions):
    """Has an attribute of this name that cannot be set."""

    conf = property(lambda self: None)

    def __init__(self):
        pass

    def host_passes(self, host_state, spec_obj):
        return host_state.host == "h3" and self.conf is None


@pytest.mark.parametrize(
    ("cls", "expected"),
    [(Roomy, ["h1", "h2", "h3"]), (OwnOptions, ["h3"]), (LateOptions, ["h3"]), (Property, ["h3"])],
)
def test_per_host_filters_have_the_options_unless_they_bring_their_own(cls, expected):
    assert left(cls) == expected


def load(paths, names):
    return load_filters.load(make_conf(available_filters=paths, enabled_filters=names))


def nova_s_filters():
    """What nova's function returns, and a class of an operator inside nova's package."""
    own = type("OwnFilter", (BaseHostFilter,), {"__module__": "nova.scheduler.filters.own"})
    return [type("ComputeFilter", (), {"__module__": "nova.scheduler.filters.compute_filter"}), own]


def test_classes_of_nova_are_the_built_in_ones_however_they_came_into_the_list():
    ours, theirs = load_filters.available([f"{__name__}.nova_s_filters"])
    assert ours is ComputeFilter
    assert theirs.__name__ == "OwnFilter"


def test_functions_are_trusted_and_the_later_of_equal_names_counts():
    assert load_filters.available([f"{__name__}.some_filters"]) == [NotFirst, dict]
    classes = load_filters.available(["nova.scheduler.filters.all_filters", f"{__name__}.NotFirst"])
    assert classes[-1] is NotFirst
    (rule,) = load_filters.enable(make_conf(), "ComputeFilter", {"ComputeFilter": NotFirst})
    assert rule.name == "NotFirst"


def test_a_name_listed_twice_is_one_object_that_runs_twice():
    first, second = load([f"{__name__}.NotFirst"], ["NotFirst", "NotFirst"])
    assert first is second


def test_names_that_are_not_available_are_all_named():
    with pytest.raises(HostFilterNotFound, match="Scheduler Host Filter NoSuch, Neither could not be found"):
        load(["nova.scheduler.filters.all_filters"], ["NoSuch", "ComputeFilter", "Neither"])


def test_names_close_to_available_ones_are_suggested():
    names = ["NumaTopologyFiltr", "Nope", "nova.scheduler.filters.compute_filter.ComputeFilter"]
    with pytest.raises(HostFilterNotFound) as raised:
        load(["nova.scheduler.filters.all_filters"], names)
    hint = f"Did you mean NUMATopologyFilter for {names[0]}, ComputeFilter for {names[2]}?"
    assert str(raised.value).endswith(f"could not be found. {hint}")


@pytest.mark.parametrize(
    "path", ["NotFirst", "", "no.such.Filter", f"{__name__}._Private", f"{__name__}.REBUILD", "builtins.dict"]
)
def test_paths_that_lead_nowhere(path):
    with pytest.raises(ClassNotFound):
        load_filters.available([path])


def test_names_of_old_are_found_without_being_available():
    assert [type(rule) for rule in load([], ["RamFilter"])] == [RamFilter]
