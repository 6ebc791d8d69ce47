from datetime import datetime
import gc
import json
from types import SimpleNamespace
import weakref

import numpy as np
import pytest

from scheduler import objects
from scheduler.errors import InvalidRequest, NoValidHost, PlacementUnavailable
from scheduler.filters.chain import FilterChain
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.view import HostView
from scheduler.numa.fit import Fitter
from scheduler.placement.answer import Usage
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Written
from scheduler.rules import load_filters as filter_loader
from scheduler.rules import load_weighers as weight_loader
from scheduler.selection.driver import FilterDriver
from scheduler.selection.ranking import NO_OBSERVER
from tests.builders import OTHER_CELL, make_host, make_table, make_view, uuid_of
from tests.unit.selection.requests import (
    REFUSED,
    FakeClaims,
    group,
    host_with_candidate,
    make_candidate,
    make_conf,
    make_request,
    make_spec,
    session_of,
)

CONTEXT = SimpleNamespace(user_id="user")
ONLY_RAM = {"weight_classes": ["nova.scheduler.weights.ram.RAMWeigher"]}
NOT_ENOUGH = "No valid host was found. There are not enough hosts available."


def driver(**options):
    conf = make_conf(**options)
    chain = FilterChain(filter_loader.load(conf))
    return FilterDriver(conf, chain, weight_loader.load(conf), Fitter())


def select(hosts, uuids, claims=None, spec=None, alternates=True, observer=NO_OBSERVER, **options):
    spec = spec or make_spec()
    request = make_request(spec, uuids, context=CONTEXT, with_alternates=alternates)
    with session_of(claims or FakeClaims(), request) as of_request:
        reply = driver(**options).select(make_view(hosts), request, of_request, observer=observer)
    request.write_progress()
    return reply


def names(reply):
    return [[one.service_host for one in selections] for selections in reply]


def four_hosts():
    """h1 best, h4 worst."""
    return [host_with_candidate(f"h{number}").ram(9000 - 1000 * number) for number in range(1, 5)]


def test_what_a_request_saw_of_its_hosts_is_released_when_it_ends():
    """Arrays of all hosts would else wait for the garbage collector, which does not know how large they are."""
    gc.disable()
    try:
        view = make_view(four_hosts())
        column = weakref.ref(view.numbers("free_ram_mb"))
        view.hosts()
        request = make_request(make_spec(), ["i1"], context=CONTEXT, with_alternates=True)
        with session_of(FakeClaims(), request) as claims:
            driver().select(view, request, claims)
        del view
        assert column() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("max_attempts", "wanted", "count"), [(1, True, 0), (4, True, 3), (9, True, 3), (3, False, 0)]
)
def test_number_of_alternates(max_attempts, wanted, count):
    reply = select(four_hosts(), ["i1"], alternates=wanted, scheduler__max_attempts=max_attempts)
    assert len(reply[0]) == 1 + count


def test_hosts_without_a_candidate_are_neither_chosen_nor_offered():
    hosts = four_hosts()
    hosts[0].candidates, hosts[2].candidates = [], []
    assert names(select(hosts, ["i1"])) == [["h2", "h4"]]


def test_a_refused_claim_leads_to_the_next_host_and_the_refused_host_is_offered_last():
    claims = FakeClaims({uuid_of("h1"): REFUSED})
    reply = select(four_hosts(), ["i1"], claims, scheduler__max_attempts=5)
    assert names(reply) == [["h2", "h3", "h4", "h1"]]
    assert [root for _, root in claims.tried] == [uuid_of("h1"), uuid_of("h2")]


def test_another_candidate_of_the_host_is_tried_if_the_refusal_may_not_hold_for_it():
    host = host_with_candidate("h1")
    other = make_candidate("child", VCPU=2)
    host.candidate(make_candidate(host.columns["uuid"], VCPU=2, DISK_GB=1), other)
    claims = FakeClaims({uuid_of("h1"): REFUSED})
    reply = select([host], ["i1"], claims)
    assert [root for _, root in claims.tried] == [uuid_of("h1"), "child"]
    assert json.loads(reply[0][0].allocation_request)["allocations"] == other.allocations


def test_a_multi_create_consumes_between_its_instances():
    hosts = [host_with_candidate("h1").ram(3000), host_with_candidate("h2").ram(2900)]
    assert names(select(hosts, ["i1", "i2", "i3"], **ONLY_RAM)) == [["h1"], ["h2"], ["h1"]]


def test_alternates_of_a_multi_create_are_never_a_chosen_host():
    hosts = four_hosts()
    reply = select(hosts, ["i1", "i2", "i3"], **ONLY_RAM)
    assert [selections[0].service_host for selections in reply] == ["h1", "h1", "h2"]
    assert names(reply) == [["h1", "h3", "h4"], ["h1", "h3", "h4"], ["h2", "h3", "h4"]]


def test_alternates_of_a_multi_create_are_in_the_cell_of_each():
    hosts = [host_with_candidate(f"h{number}").ram(9000 - 100 * number) for number in range(1, 7)]
    for host in hosts[1::2]:
        host.cell(OTHER_CELL)
    reply = select(hosts, ["i1", "i2"], **ONLY_RAM)
    assert names(reply) == [["h1", "h3", "h5"], ["h2", "h4", "h6"]]


def test_a_partial_multi_create_is_given_back():
    refusals = [Written(Outcome.DONE), REFUSED, REFUSED, REFUSED]
    claims = FakeClaims({uuid_of("h1"): refusals})
    with pytest.raises(NoValidHost, match=NOT_ENOUGH):
        select([host_with_candidate("h1")], ["i1", "i2", "i3"], claims)
    assert claims.released == ["i1"]


def test_whatever_is_raised_what_was_claimed_is_given_back():
    claims = FakeClaims({uuid_of("h1"): [Written(Outcome.DONE), REFUSED], uuid_of("h2"): RuntimeError("bug")})
    with pytest.raises(RuntimeError):
        select(four_hosts()[:2], ["i1", "i2"], claims, **ONLY_RAM)
    assert claims.released == ["i1"]  # nobody knows how far the claim for i2 came: it is in doubt


def test_what_was_refused_is_planned_on_other_hosts():
    claims = FakeClaims({uuid_of("h1"): [Written(Outcome.DONE), REFUSED]})
    reply = select(four_hosts(), ["i1", "i2"], claims, **ONLY_RAM)
    assert [selections[0].service_host for selections in reply] == ["h1", "h2"]
    assert [tried for tried, _ in claims.tried] == ["i1", "i2", "i2"]


def test_the_order_of_the_reply_is_that_of_the_instances():
    claims = FakeClaims({uuid_of("h1"): [REFUSED, Written(Outcome.DONE), REFUSED]})
    reply = select(four_hosts(), ["i1", "i2"], claims, **ONLY_RAM)
    assert [selections[0].service_host for selections in reply] == ["h2", "h1"]


def test_a_hopeless_claim_ends_a_multi_create_and_gives_back_the_others():
    away = Written(Outcome.UNSENT, reason="away")
    claims = FakeClaims({uuid_of("h1"): [Written(Outcome.DONE), away]})
    with pytest.raises(PlacementUnavailable):
        select([host_with_candidate("h1")], ["i1", "i2"], claims)
    assert claims.released == ["i1"]


def test_hosts_without_room_are_passed_over():
    claims = FakeClaims()
    usages = {uuid_of("h1"): {"VCPU": Usage(5, 1)}, uuid_of("h2"): {"VCPU": Usage(3, 1)}}.get
    fill = driver(ram_weight_multiplier=-1.0, **ONLY_RAM)
    view = make_view(four_hosts()[:2])
    with pytest.raises(NoValidHost, match=NOT_ENOUGH):
        fill.select(view, make_request(uuids=["i1", "i2", "i3", "i4"]), claims, usages=usages)
    view = make_view(four_hosts()[:2])
    reply = fill.select(view, make_request(uuids=["i1", "i2", "i3"]), claims, usages=usages)
    assert [selections[0].service_host for selections in reply] == ["h2", "h1", "h1"]
    assert len(claims.tried) == 3


class Meanwhile(FakeClaims):
    """Another request is served by the same process while this one claims."""

    def __init__(self, other):
        super().__init__()
        self.other = other

    def answer(self, instance_uuid, candidate):
        other, self.other = self.other, lambda: None
        other()
        return super().answer(instance_uuid, candidate)


def views_of(hosts, pending, count):
    table = make_table(hosts)
    lists = [list(host.candidates) for host in hosts]
    return [HostView.of(table, np.arange(len(hosts)), list(lists), None, pending) for _ in range(count)]


@pytest.mark.parametrize("number", [1, 3])
def test_requests_that_looked_at_the_same_time_choose_different_hosts(number):
    hosts = [host_with_candidate(f"h{n}").ram(9000 - n) for n in range(1, 9)]
    first, second = views_of(hosts, PendingPlacements(), 2)
    replies = {}

    def serve(view, name, claims):
        uuids = [f"{name}{i}" for i in range(number)]
        replies[name] = driver(**ONLY_RAM).select(
            view, make_request(uuids=uuids, with_alternates=True), claims
        )

    serve(first, "a", Meanwhile(lambda: serve(second, "b", FakeClaims())))
    chosen = [selections[0].service_host for reply in replies.values() for selections in reply]
    assert len(set(chosen)) == 2 * number


def test_what_a_request_released_is_not_pending_any_more():
    pending = PendingPlacements()
    hosts = [host_with_candidate("h1"), host_with_candidate("h2")]
    away = Written(Outcome.UNSENT, reason="away")
    claims = FakeClaims({uuid_of("h1"): [Written(Outcome.DONE), away], uuid_of("h2"): away})
    (view,) = views_of(hosts, pending, 1)
    request = make_request(uuids=["i1", "i2"], context=CONTEXT, with_alternates=True)
    with pytest.raises(PlacementUnavailable), session_of(claims, request, pending) as of_request:
        driver().select(view, request, of_request)
    assert len(pending) == 0


def test_a_refused_host_is_not_reserved_and_a_claimed_one_is():
    pending = PendingPlacements()
    (view,) = views_of(four_hosts(), pending, 1)
    claims = FakeClaims({uuid_of("h1"): REFUSED})
    driver().select(view, make_request(uuids=["i1"], with_alternates=True), claims)
    assert pending.node_of("i1") == uuid_of("h2")
    assert len(pending) == 1


@pytest.mark.parametrize("uuids", [["i1"], ["i1", "i2"]], ids=len)
def test_only_hosts_whose_claim_is_granted_build_for_a_project(uuids):
    """What another project lets fail on the host that refused is nothing to it."""
    pending = PendingPlacements()
    hosts = four_hosts()
    before = make_table(hosts)
    pending.builds.follow(before)
    (view,) = views_of(hosts, pending, 1)
    claims = FakeClaims({uuid_of("h1"): REFUSED})
    request = make_request(make_spec(project_id="p"), uuids, with_alternates=True)
    chosen = {one[0].service_host for one in driver(**ONLY_RAM).select(view, request, claims)}
    after = make_table(
        [host.failed_builds(1).set(updated=datetime(2026, 1, 1)) for host in hosts], previous=before
    )
    pending.builds.follow(after)
    failed = pending.builds.failed_for("p", after)
    assert {row.host for row, at in zip(after.rows, failed, strict=True) if at} == chosen
    assert "h1" not in chosen


def test_nothing_is_reserved_without_claims():
    pending = PendingPlacements()
    (view,) = views_of(four_hosts(), pending, 1)
    driver().select(view, make_request(uuids=["i1", "i2"], with_alternates=True), None)
    assert len(pending) == 0


def test_anti_affinity_holds_between_requests_that_no_database_shows_yet():
    hosts = [host_with_candidate("h1"), host_with_candidate("h2")]
    views = views_of(hosts, PendingPlacements(), 3)

    def one(uuid):
        spec = make_spec(instance_group=group(policy="anti-affinity", policies=["anti-affinity"], members=["i1", "i2", "i3"], hosts=[]))  # fmt: skip
        return names(driver().select(views.pop(), make_request(spec, [uuid]), FakeClaims()))

    assert one("i1") + one("i2") == [["h1"], ["h2"]]
    with pytest.raises(NoValidHost):
        one("i3")


def test_affinity_keeps_the_request_together():
    spec = make_spec(
        instance_group=group(policy="affinity", policies=["affinity"], members=["i1", "i2"], hosts=[])
    )
    assert names(select(four_hosts(), ["i1", "i2"], spec=spec)) == [["h1"], ["h1"]]
    assert spec.instance_group.hosts == ["h1", "h1"]


def test_groups_learn_their_providers():
    host = make_host("h1")
    uuid = host.columns["uuid"]
    host.candidate(make_candidate(uuid, {"": [uuid], "port": ["nic"]}))
    spec = make_spec(requested_resources=[objects.RequestGroup(requester_id="port")])
    select([host], ["i1"], spec=spec)
    assert spec.requested_resources[0].provider_uuids == ["nic"]


def test_a_group_that_placement_does_not_map_ends_the_request_and_nothing_stays_claimed():
    claims = FakeClaims()
    spec = make_spec(requested_resources=[objects.RequestGroup(requester_id="port")])
    with pytest.raises(InvalidRequest, match="port"):
        select([host_with_candidate("h1")], ["i1"], claims, spec)
    assert claims.released == ["i1"]


def test_without_claims_the_reply_has_no_allocation():
    spec = make_spec(scheduler_hints={"_nova_check_type": ["rebuild"]}, force_hosts=["h2"])
    conf = make_conf()
    hosts = make_view([make_host("h1"), make_host("h2")])
    chain = FilterChain(filter_loader.load(conf))
    reply = FilterDriver(conf, chain, (), Fitter()).select(hosts, make_request(spec, ["i1"]), None)
    assert names(reply) == [["h2"]]
    assert reply[0][0].allocation_request == "null"
    assert reply[0][0].allocation_request_version is None


def test_selections_carry_zone_cell_and_version():
    host = host_with_candidate("h1").az("zone1")
    found = select([host, host_with_candidate("h2").ram(1)], ["i1"])[0]
    assert [one.availability_zone for one in found] == ["zone1", "nova"]
    assert found[0].allocation_request_version == "1.36"
    assert found[0].compute_node_uuid == uuid_of("h1")
    assert found[0].limits.to_dict() == {}


def test_hosts_that_conductors_do_not_know_are_neither_chosen_nor_offered():
    conf = make_conf()
    chain, weighers = FilterChain(filter_loader.load(conf)), weight_loader.load(conf)
    claims = FakeClaims()
    driver = FilterDriver(conf, chain, weighers, Fitter(), is_mapped=lambda host: host not in ("h1", "h3"))
    reply = driver.select(make_view(four_hosts()), make_request(uuids=["i1"], with_alternates=True), claims)
    assert names(reply) == [["h2", "h4"]]
    assert claims.tried == [("i1", uuid_of("h2"))]


def test_filters_see_the_uuid_of_each_instance_from_the_first_on():
    """A member of a full group may stay on its host; the request may have been made for another instance."""
    hosts = [host_with_candidate("h1").holding("i1"), host_with_candidate("h2").holding("other")]
    members = group(policy="anti-affinity", policies=["anti-affinity"], members=["i1", "other"], hosts=[])
    reply = select(hosts, ["i1"], spec=make_spec(instance_uuid="i9", instance_group=members))
    assert names(reply) == [["h1"]]


def test_a_host_that_refused_a_group_does_not_bind_the_rest_of_it():
    members = group(policy="affinity", policies=["affinity"], members=["i1", "i2"], hosts=[])
    claims = FakeClaims({uuid_of("h1"): REFUSED})
    reply = select(four_hosts(), ["i1", "i2"], claims, make_spec(instance_group=members), alternates=False)
    assert names(reply) == [["h2"], ["h2"]]
