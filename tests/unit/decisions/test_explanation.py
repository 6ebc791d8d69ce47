"""Explanations of requests without a host in clouds of hundreds of hosts, decided as a plan decides them."""

from dataclasses import replace
import gc
import re

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from scheduler import objects
from scheduler.claims.session import NothingSent
from scheduler.decisions import providers
from scheduler.decisions.cause_code import CauseCode
from scheduler.decisions.document import decode
from scheduler.decisions.failure import Failure
from scheduler.decisions.failure_cause import cause_of
from scheduler.decisions.recorder import DecisionRecorder
from scheduler.errors import NoValidHost
from scheduler.filters.base import HostFilter, Judge
from scheduler.filters.chain import FilterChain
from scheduler.operators.explain.ticket import for_user
from scheduler.placement.answer import Candidates
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.ranking import Ranking
from scheduler.workflow.decide import decide
from tests.builders import CELL, uuid_of
from tests.support.options import make_conf
from tests.unit.operators.plan.clouds import FILTERS, MadeCloud, flavor, group, node
from tests.unit.operators.plan.test_capacity import request
from tests.unit.operators.plan.test_drain import host_cells, pinned_spec

#: More hosts than any bound of what is named or read.
MANY = 230


def explained(cloud, wanted, count=1, in_group=None, **fields):
    """The document of a request that finds no host, and its cause."""
    _, spec = request(cloud, wanted, **fields)
    spec.num_instances, spec.instance_group = count, in_group
    uuids = [uuid_of(f"new {number}") for number in range(count)]
    decision = cloud.planned().decide(spec, uuids, explain=True).document
    return decision, cause_of(decision)


def alone(decision):
    """How many hosts fail each constraint alone."""
    return {constraint.text: failing.hosts for constraint, failing in decision.why.alone()}


def test_the_reason_of_a_filter_is_kept_if_it_rejects_other_hosts_too():
    cloud = MadeCloud(*(node(f"h{number}") for number in range(MANY)))
    for number in range(5):
        cloud.put(f"full{number}", f"h{number}", flavor("all", ram=8192))
    image = objects.ImageMeta(properties=objects.ImageMetaProps.from_dict({"hw_architecture": "aarch64"}))
    decision, cause = explained(cloud, flavor(), image=image)
    assert alone(decision) == {"ImagePropertiesFilter": MANY - 5}
    assert cause.code == CauseCode.CAPABILITIES
    assert "aarch64" in cause.words


@pytest.mark.parametrize(("count", "of_the_first"), [(20, ""), (21, " (of the first hosts)")])
def test_reasons_that_are_known_of_the_first_hosts_are_said_to_be_so(count, of_the_first):
    hosts = [node(f"h{number}").forced_down() for number in range(20)]
    hosts += [node(f"h{number}").down() for number in range(20, count)]
    _, cause = explained(MadeCloud(*hosts, enabled_filters=["ComputeFilter"]), flavor())
    assert cause.words == (
        f"{count} hosts are rejected only by ComputeFilter: service forced down{of_the_first}"
    )


def test_hosts_of_any_memory_fail_by_the_limits_of_their_hardware():
    """Of many hosts not the limits of each are read; those of other memory are not called suitable."""
    cloud = MadeCloud(*(node(f"h{number}", vcpus=64, ram=8192 + number) for number in range(MANY)))
    cloud.inventories = {f"h{number}": {"VCPU": {"allocation_ratio": 4.0}} for number in range(MANY)}
    decision, cause = explained(cloud, flavor("large", vcpus=100))
    assert (alone(decision), cause.code) == ({"100 VCPU": MANY}, CauseCode.RESOURCES)
    assert "VCPU max_unit 64" in cause.words


@settings(max_examples=5, deadline=None)
@given(st.lists(st.booleans(), min_size=MANY, max_size=MANY))
def test_filters_judge_all_hosts_that_lack_little(has_cells):
    """Hosts of too little memory, some with NUMA cells: those without do not lack memory alone."""
    hosts = [node(f"h{number}", ram=600) for number in range(MANY)]
    for host, cells in zip(hosts, has_cells, strict=True):
        if cells:
            host.numa(host_cells(4))
    decision, _ = explained(
        MadeCloud(*hosts), flavor("pinned", vcpus=2, ram=700), numa_topology=pinned_spec()
    )
    found = alone(decision)
    assert set(found) <= {"700 MEMORY_MB"}
    assert found.get("700 MEMORY_MB", 0) == sum(has_cells)


def test_racks_that_the_instances_before_use_are_used_for_all_hosts():
    racks = 21
    hosts = [node(f"h{number}", vcpus=64).aggregate(f"rack{number % racks}", {"rack": f"{number % racks}"})
             for number in range(MANY)]  # fmt: skip
    for host in hosts[-5:]:
        host.disabled("repair")
    for host in hosts[-20:-5]:
        host.ram(1024, 1024)
    cloud = MadeCloud(
        *hosts, enabled_filters=[*FILTERS, "FailureDomainFilter"], berth__failure_domain_key="rack"
    )
    cloud.traits = {host.columns["host"]: {"COMPUTE_STATUS_DISABLED"} for host in hosts[-5:]}
    members = [f"new {number}" for number in range(racks + 2)]
    decision, cause = explained(
        cloud, flavor(ram=2048), count=racks + 2, in_group=group("g", "soft-anti-affinity", members),
        scheduler_hints={"different_failure_domain": ["true"]},
    )  # fmt: skip
    assert decision.why.placed == racks
    assert alone(decision) == {"FailureDomainFilter": MANY - 20}
    assert (cause.code, "members of group" in cause.words) == (CauseCode.SERVER_GROUP, True)


def one_per_host(count):
    """Hosts that take one instance each, and the options for that."""
    hosts = [node(f"h{number}") for number in range(count)]
    return MadeCloud(*hosts, enabled_filters=["NumInstancesFilter"], max_instances_per_host=1)


def test_each_host_that_an_instance_before_has_filled_is_out():
    decision, cause = explained(one_per_host(4), flavor(), count=5)
    assert (decision.why.placed, decision.why.suitable, alone(decision)) == (4, 0, {"NumInstancesFilter": 4})
    assert cause.code == CauseCode.LOAD


def test_cells_that_the_instances_before_pin_are_used_on_all_hosts():
    hosts = [node(f"h{number}", ram=65536, vcpus=64).numa(host_cells(4)) for number in range(4)]
    decision, cause = explained(
        MadeCloud(*hosts), flavor("pinned", vcpus=2), count=9, numa_topology=pinned_spec()
    )
    assert (decision.why.placed, decision.why.suitable, alone(decision)) == (8, 0, {"NUMATopologyFilter": 4})
    assert cause.code == CauseCode.NUMA


@pytest.mark.parametrize("explain", [False, None, True])
def test_a_planned_decision_leaves_no_ranking_to_the_garbage_collector(explain):
    """With a snapshot of many hosts the collector runs rarely, and each ranking has arrays of all of them."""
    cloud = MadeCloud(*(node(f"h{number}") for number in range(2)))
    planned, (_, spec) = cloud.planned(), request(cloud, flavor())
    gc.collect()
    gc.disable()
    try:
        before = sum(type(each) is Ranking for each in gc.get_objects())
        assert planned.decide(spec, [spec.instance_uuid], explain=explain).selections
        assert sum(type(each) is Ranking for each in gc.get_objects()) == before
    finally:
        gc.enable()


class Failing(HostFilter):
    """A filter that cannot judge, as one of an operator may be."""

    def prepare(self, request):
        return Judge(self.fail)

    def fail(self, hosts):
        raise ValueError(len(hosts))


def test_a_filter_that_fails_is_named_and_nothing_is_left_to_ask():
    cloud = MadeCloud(*(node(f"h{number}") for number in range(3)))
    _, spec = request(cloud, flavor(ram=9000))
    planned = cloud.planned()
    asking = Asking(planned)
    planned._world.driver.chain = FilterChain([Failing(cloud.conf)])
    decision = planned.decide(spec, [spec.instance_uuid], explain=True).document
    assert (asking.first.incomplete, decision.why.incomplete) == (True, False)
    assert decision.why.notes == ["Failing failed on hosts that it had to judge: ValueError"]
    assert "3 hosts fail something that is not known and lack 9000 MEMORY_MB" in decision.cause.words


def test_a_filter_that_fails_on_hosts_that_are_offered_and_on_others_is_named_once():
    cloud = MadeCloud(node("down").down(), node("full"), enabled_filters=["ComputeFilter"])
    cloud.put("i", "full", flavor(ram=8000))
    _, spec = request(cloud, flavor())
    planned = cloud.planned()
    chain = planned._world.driver.chain
    planned._world.driver.chain = FilterChain([*chain.filters, Failing(cloud.conf)])
    decision = planned.decide(spec, [spec.instance_uuid], explain=True).document
    assert decision.why.notes == ["Failing failed on hosts that it had to judge: ValueError"]


class Asking:
    """An explainer of plans that explains first as when the request ends."""

    def __init__(self, planned):
        self._explainer, self._client = planned.explainer, planned.snapshot.mirror._client
        self.first = self.reads = None
        planned.explainer = self

    def explain(self, failure):
        before = len(self._client.asked)
        self.first = self._explainer.explain(failure, asks=False).why
        self.reads = len(self._client.asked) - before
        return self._explainer.explain(failure)


def test_when_the_request_ends_nothing_is_read_and_what_is_open_is_not_known():
    """Placement has filled and freed hosts since the mirror was read; two are not in it."""
    cloud = MadeCloud(*(node(f"h{number}") for number in range(MANY)))
    wanted = flavor("large", ram=6000)
    for number in range(10, MANY):
        cloud.put(f"i{number}", f"h{number}", flavor(ram=4096))
    _, spec = request(cloud, wanted)
    planned = cloud.planned()
    asking, nodes = Asking(planned), planned.snapshot.mirror.known._nodes
    nodes.gone[:2] = True
    planned.snapshot.mirror.known._nodes.used[2, 2:10] = 8192
    decision = planned.decide(spec, [spec.instance_uuid], explain=True).document
    assert (asking.reads, asking.first.incomplete, decision.why.incomplete) == (0, True, False)
    assert {one.text: each.hosts for one, each in asking.first.alone()} == {
        "6000 MEMORY_MB": MANY - 2, "a resource provider in Placement": 2,
    }  # fmt: skip
    assert alone(decision)["6000 MEMORY_MB"] == MANY - 2


@pytest.mark.parametrize(("full", "is_read"), [(20, True), (49, False)])
def test_hosts_without_free_memory_are_read_later_if_they_are_few(full, is_read):
    """The mirror does not know such hosts: whether they lack more than memory is not known at first."""
    cloud = MadeCloud(*(node(f"h{number}") for number in range(full + 1)))
    for number in range(full):
        cloud.put(f"i{number}", f"h{number}", flavor(ram=8192))
        cloud.traits[f"h{number}"] = {"CUSTOM_A"}
    _, spec = request(cloud, flavor("a", trait__CUSTOM_A="required"))
    planned = cloud.planned()
    asking = Asking(planned)
    decision = planned.decide(spec, [spec.instance_uuid], explain=True).document
    assert (asking.reads, asking.first.incomplete, decision.why.incomplete) == (0, is_read, False)
    assert alone(decision) == {"required trait CUSTOM_A": 1} | ({"1024 MEMORY_MB": full} if is_read else {})
    assert decision.cause.code == (CauseCode.RESOURCES if is_read else CauseCode.TRAIT)


def test_a_slow_placement_is_not_asked_for_longer_than_an_explanation_may_take():
    cloud = MadeCloud(*(node(f"h{number}") for number in range(MANY)))
    _, spec = request(cloud, flavor(ram=9000))
    planned = cloud.planned()
    client, now = planned.snapshot.mirror._client, [0.0]
    planned.snapshot.mirror.known._nodes.gone[:10] = True
    planned.explainer.clock = lambda: now[0]
    client.asked.clear()
    client.before = lambda _path: now.__setitem__(0, now[0] + 3.0)
    assert planned.decide(spec, [spec.instance_uuid], explain=True).document.why.hosts == MANY
    assert now[0] <= 5.0 + 4 * 3.0


def test_equal_refusals_cost_placement_one_analysis(monkeypatch):
    cloud = MadeCloud(*(node(f"h{number}") for number in range(MANY)))
    cloud.put("full", "h0", flavor(ram=8000))
    planned, asked = cloud.planned(), []
    monkeypatch.setattr(providers, "read_offer", lambda _, text: asked.append(text) or (frozenset(), False))
    _, spec = request(cloud, flavor("gpu", resources1__VGPU="1", group_policy="none"))
    found = []
    for number in range(64):
        of_one = SchedulingRequest.of(spec.obj_clone(), [uuid_of(f"new {number}")])
        failure = Failure(of_one, planned.snapshot.candidate_hosts.queries(of_one))
        known = planned.explainer.explain(failure, asks=False).why
        assert (known.incomplete, [one.kind for one, _ in known.alone()]) == (True, ["group"])
        found.append(planned.explainer.explain(failure).why)
    assert {(why.incomplete, why.failing[0].hosts) for why in found} == {(False, MANY - 1)}
    assert len(asked) == len(set(asked)) > 0


def test_callers_wait_for_no_question_and_placement_gets_one_analysis(monkeypatch):
    """A burst of equal refusals while Placement takes three seconds for each answer."""
    cloud = MadeCloud(*(node(f"h{number}") for number in range(MANY)))
    planned, asked, now = cloud.planned(), [], [0.0]

    def offer(_client, text):
        asked.append(text)
        now[0] += 3.0
        return (frozenset(), False)

    monkeypatch.setattr(providers, "read_offer", offer)
    monkeypatch.setattr(planned._world.offers, "find", lambda queries: Candidates({}))
    explainer = replace(planned.explainer, clock=lambda: now[0])
    recorder = DecisionRecorder(make_conf(), lambda: now[0], explain=explainer.explain)
    _, spec = request(cloud, flavor("gpu", resources1__VGPU="1", group_policy="none"))
    for number in range(64):
        of_one = SchedulingRequest.of(spec.obj_clone(), [uuid_of(f"new {number}")])
        trace = recorder.begin(of_one)
        with pytest.raises(NoValidHost), recorder.recording(trace):
            decide(of_one, planned._world, NothingSent, trace)
        assert "lack only group 1 (1 VGPU)" in trace.decision.cause.words
    assert (now[0], asked) == (0.0, [])
    recorder.start()
    recorder.complete_now(timeout=60.0)
    recorder.stop(10.0)
    assert len(asked) == len(set(asked)) > 0
    assert now[0] == 3.0 * len(asked)
    assert not decode(recorder.memory.find(uuid_of("new 63"))).why.incomplete


@pytest.mark.parametrize("there", [MANY, 3])
def test_hosts_that_placement_does_not_know_in_the_zone_are_named(there):
    hosts = [node(f"h{number}").az("here" if number < there else "elsewhere") for number in range(MANY)]
    decision, cause = explained(MadeCloud(*hosts), flavor(), availability_zone="here")
    text = "the same membership in Placement's aggregates as in nova's (availability zone here)"
    assert alone(decision)[text] == there
    assert cause.remedy == "Copy nova's aggregates to Placement: nova-manage placement sync_aggregates."
    assert re.match(rf"{there} hosts lack only {re.escape(text)}", cause.words)


def test_hosts_of_a_disabled_cell_are_known_and_the_user_is_told_so():
    cloud = MadeCloud(node("h1"), node("h2"))
    _, spec = request(cloud, flavor())
    planned = cloud.planned()
    planned.snapshot.table.disabled_cells = frozenset({CELL})
    decision = planned.decide(spec, [spec.instance_uuid], explain=True).document
    assert (decision.cause.code, decision.cause.words) == (
        CauseCode.CELL,
        "2 hosts suit but are not in an enabled cell",
    )
    assert "out of service" in for_user(decision)[0]


def test_an_old_mirror_is_named():
    cloud = MadeCloud(node("h1", ram=512))
    _, spec = request(cloud, flavor())
    planned, age = cloud.planned(), [3.0]
    planned.snapshot.mirror.age = lambda: age[0]
    notes = []
    for age[0] in (3.0, 32.4):
        notes += planned.decide(spec, [spec.instance_uuid], explain=True).document.why.notes
    assert notes == ["What hosts have in Placement is as of 32 s before"]
