from datetime import timedelta

import pytest

from scheduler.operators.audit.compare import ConsumerCheck, inventories, without_service
from scheduler.operators.audit.values import AuditedState, AuditFinding, Kind, NodeRecord
from scheduler.placement.providers import ListedProvider
from tests.unit.operators.audit.clouds import NEW, NOW, OLD, Cloud


def two_hosts():
    return Cloud().host("a").host("b")


IN_ORDER = {
    "an instance on its host": two_hosts().instance("i", "a").holds("i", "a"),
    "an instance on a child provider of its host": two_hosts().child("numa0", "a").instance("i", "a").holds("i", "numa0", "a"),
    "an instance with a disk on a sharing provider": two_hosts().sharing("ceph").instance("i", "a").holds("i", "a", "ceph"),
    "an ironic instance on its node": Cloud().host("ironic", node="n1").instance("i", "ironic", node="n1").holds("i", "n1", CUSTOM_BAREMETAL=1),
    "an instance whose node is not recorded": two_hosts().instance("i", "a", node=None).holds("i", "a"),
    "an ironic instance whose node another compute service has taken over": Cloud().host("ironic2", node="n1").instance("i", "ironic1", node="n1").holds("i", "n1", CUSTOM_BAREMETAL=1),
    "an instance that keeps the former name of its node": Cloud().host("a", node="a.example.com").host("b").instance("i", "a", node="a").holds("i", "a.example.com"),
    "an instance that was deleted a moment ago": two_hosts().deleted("i", NEW).holds("i", "a"),
    "a shelved instance that holds nothing": two_hosts().instance("i", None, vm_state="shelved_offloaded"),
    "a build that is being scheduled": two_hosts().build_request("i", at=NEW).mapping("i", changed=NEW).holds("i", "a"),
    "a build whose instance has no host yet": two_hosts().instance("i", None, changed=NEW, vm_state="building").holds("i", "a"),
    "an instance that was created a moment ago and is not in its cell yet": two_hosts().mapping("i", changed=NEW).holds("i", "a"),
    "an instance that moved a moment ago": two_hosts().instance("i", "b", changed=NEW).holds("i", "a"),
    "a resize before the instance changes its host": two_hosts().instance("i", "a").migration("m", "i", "a", "b", status="migrating").holds("i", "b"),
    "a resize that waits for its confirmation": two_hosts().instance("i", "b").migration("m", "i", "a", "b", status="finished").holds("i", "b"),
    "a resize whose destination is not claimed yet": two_hosts().instance("i", "a").migration("m", "i", "a", None, status="pre-migrating"),
    "an evacuation that runs": two_hosts().instance("i", "a").migration("m", "i", "a", "b", status="pre-migrating", kind="evacuation").holds("i", "a", "b"),
    "an evacuated instance whose source has not come back": two_hosts().instance("i", "b").migration("m", "i", "a", "b", status="done", kind="evacuation").holds("i", "a", "b"),
    "a resize between cells": Cloud().host("a").host("b", cell="c2").instance("i", "a").instance("i", "b", cell="c2").migration("m", "i", "a", "b", status="finished").holds("i", "b"),
    "an unshelve that runs": two_hosts().instance("i", None, vm_state="shelved_offloaded", changed=NEW).holds("i", "a"),
}  # fmt: skip


@pytest.mark.parametrize("cloud", IN_ORDER.values(), ids=IN_ORDER)
def test_what_is_in_order_or_in_flight_is_no_finding(cloud):
    assert cloud.verdict("i") is None


WRONG = {
    "no instance": (two_hosts().holds("i", "a"), Kind.NO_INSTANCE),
    "a deleted instance whose mapping is left": (two_hosts().mapping("i").holds("i", "a"), Kind.NO_INSTANCE),
    "a build request that nothing serves any more": (two_hosts().build_request("i").holds("i", "a"), Kind.NO_INSTANCE),
    "two hosts without a migration": (two_hosts().instance("i", "a").holds("i", "a", "b"), Kind.TWO_HOSTS),
    "two hosts after a resize": (two_hosts().instance("i", "b").migration("m", "i", "a", "b", status="confirmed").holds("i", "a", "b"), Kind.TWO_HOSTS),
    "two hosts after an evacuation was cleaned up": (two_hosts().instance("i", "b").migration("m", "i", "a", "b", status="completed", kind="evacuation").holds("i", "a", "b"), Kind.TWO_HOSTS),
    "a child provider of another host": (two_hosts().child("numa0", "b").instance("i", "a").holds("i", "a", "numa0"), Kind.TWO_HOSTS),
    "two nodes of one ironic host": (Cloud().host("ironic", node="n1").host("ironic", node="n2").instance("i", "ironic", node="n1").holds("i", "n1", "n2"), Kind.TWO_HOSTS),
    "another host only": (two_hosts().instance("i", "a").holds("i", "b"), Kind.OTHER_HOST),
    "a provider that is no compute node": (two_hosts().instance("i", "a").holds("i", "leftover"), Kind.OTHER_HOST),
    "an instance in cell0": (two_hosts().instance("i", None, cell="c0", vm_state="error").holds("i", "a"), Kind.NO_HOST),
    "an offloaded instance": (two_hosts().instance("i", None, vm_state="shelved_offloaded").holds("i", "a"), Kind.NO_HOST),
    "another host, while the node of the instance is not recorded": (two_hosts().instance("i", "a", node=None).holds("i", "b"), Kind.OTHER_HOST),
    "another node than the one that another compute service has taken over": (Cloud().host("ironic2", node="n1").host("ironic2", node="n2").instance("i", "ironic1", node="n1").holds("i", "n2"), Kind.OTHER_HOST),
    "nothing": (two_hosts().instance("i", "a"), Kind.NO_ALLOCATION),
    "only a disk on a sharing provider": (two_hosts().sharing("ceph").instance("i", "a").holds("i", "ceph"), Kind.NO_ALLOCATION),
}  # fmt: skip


@pytest.mark.parametrize(("cloud", "kind"), WRONG.values(), ids=WRONG)
def test_what_no_record_explains_is_a_finding(cloud, kind):
    verdict = cloud.verdict("i")
    assert isinstance(verdict, AuditFinding), verdict
    assert (verdict.kind, verdict.subject) == (kind, "i")


@pytest.mark.parametrize("status", ["finished", "accepted", "migrating", "post-migrating", "confirmed"])
def test_what_the_migration_of_a_deleted_instance_holds_is_a_finding(status):
    cloud = two_hosts().migration("m", "i", "a", "b", status=status).holds("m", "a")
    if status != "confirmed":
        assert cloud.verdict("m") is None
    assert cloud.deleted("i", NEW).verdict("m") is None or status == "confirmed"
    verdict = cloud.deleted("i").verdict("m")
    assert (verdict.kind, verdict.host) == (Kind.ENDED_MIGRATION, "a")
    if status != "confirmed":
        assert verdict.detail == (
            f"Migration of instance i is {status}, and nova has deleted the instance at 2025-12-31 12:00 UTC. "
            "It still holds VCPU 2."
        )


@pytest.mark.parametrize("held", [("b",), ("a", "b")], ids=["there only", "on both"])
def test_a_completed_migration_whose_instance_keeps_its_former_host_names_no_command(held):
    cloud = two_hosts().instance("i", "a").holds("i", *held)
    cloud.migration("m", "i", "a", "b", status="completed", kind="live-migration")
    verdict = cloud.verdict("i")
    assert verdict.detail.endswith(
        "holds VCPU 2 on b; a live-migration there ended as completed at 2025-12-31 12:00 UTC."
    )
    assert verdict.next_step == (
        "Check on which host the guest runs. It is probably b: keep the allocation there, and correct the host "
        "of the instance in nova's database."
    )
    cloud.migration(
        "m2", "i", "b", "a", status="completed", kind="live-migration", changed=OLD + timedelta(hours=1)
    )
    assert "no migration explains that" in cloud.verdict("i").detail


@pytest.mark.parametrize(("minutes", "waits"), [(9, True), (11, False)])
def test_a_server_that_was_deleted_minutes_ago_may_yet_be_freed(minutes, waits):
    deleted_at = NOW - timedelta(minutes=minutes)
    cloud = two_hosts().deleted("i", deleted_at).holds("i", "a")
    verdict = ConsumerCheck(cloud.topology, NOW, timedelta()).consumer(
        cloud.holdings["i"], cloud.records["i"]
    )
    assert verdict.detail.startswith(
        f"nova deleted the instance at 2026-01-01 11:{60 - minutes} UTC. It holds"
    )
    assert ("openstack resource provider allocation delete" in verdict.next_step) is not waits


def test_an_instance_on_two_hosts_is_told_where_it_runs_and_what_to_remove():
    verdict = two_hosts().instance("i", "a").holds("i", "a", "b").verdict("i")
    assert verdict.host == "a, b"
    assert (
        verdict.detail
        == "nova has the instance on host a. It also holds VCPU 2 on b; no migration explains that."
    )
    assert verdict.next_step == (
        "Check on which of the hosts the guest runs. If it runs on a only, remove the other: "
        "`openstack resource provider allocation unset --provider b-uuid i`"
    )


def test_each_provider_of_the_other_host_is_to_be_removed():
    cloud = (
        two_hosts()
        .child("numa0", "b")
        .child("numa1", "b")
        .instance("i", "a")
        .holds("i", "a", "numa0", "numa1")
    )
    assert cloud.verdict("i").next_step.endswith(
        "`openstack resource provider allocation unset --provider numa0 i`, "
        "`openstack resource provider allocation unset --provider numa1 i`"
    )


@pytest.mark.parametrize("status", ["migrating", "finished", "queued", None])
def test_a_migration_in_flight_holds_its_source(status):
    cloud = two_hosts().instance("i", "a").migration("m", "i", "a", "b", status=status).holds("m", "a")
    assert cloud.verdict("m") is None


@pytest.mark.parametrize("statuses", [("error", "finished"), ("finished", "error")], ids=str)
def test_a_move_between_cells_has_not_ended_while_it_is_in_flight_in_one_of_them(statuses):
    cloud = two_hosts().holds("m", "a")
    for cell, status in zip(("c1", "c2"), statuses, strict=True):
        cloud.migration("m", "i", "a", "b", status=status, cell=cell)
    assert cloud.verdict("m") is None


@pytest.mark.parametrize(
    "status", ["confirmed", "reverted", "error", "failed", "completed", "cancelled", "done"]
)
def test_a_migration_that_ended_must_hold_nothing(status):
    cloud = two_hosts().migration("m", "i", "a", "b", status=status).holds("m", "a")
    verdict = cloud.verdict("m")
    assert (verdict.kind, verdict.host) == (Kind.ENDED_MIGRATION, "a")
    assert f"ended as {status} and still holds VCPU 2" in verdict.detail


def test_a_migration_that_ended_a_moment_ago_is_no_finding():
    cloud = two_hosts().migration("m", "i", "a", "b", status="confirmed", changed=NEW).holds("m", "a")
    assert cloud.verdict("m") is None


def test_an_instance_without_a_readable_time_is_not_regarded_as_new():
    cloud = two_hosts().instance("i", "a", changed=None).holds("i", "b")
    assert cloud.verdict("i").kind is Kind.OTHER_HOST


PROVIDER = ListedProvider("p", 0, "p", "compute-1")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(AuditedState(PROVIDER, {"VCPU": 4}, {"VCPU": 4}, {"i": {"VCPU": 4}}), [], id="full"),
        pytest.param(
            AuditedState(PROVIDER, {"VCPU": 4}, {"VCPU": 6}, {"i": {"VCPU": 6}}),
            [(Kind.OVER_COMMITTED, "More is used than provider compute-1 has: VCPU 6 of 4.")],
            id="over-committed",
        ),
        pytest.param(
            AuditedState(PROVIDER, {"VCPU": 4}, {"VCPU": 3}, {"i": {"VCPU": 1}}),
            [(Kind.HIDDEN, "Placement counts as used on provider compute-1, for no consumer: VCPU 2.")],
            id="hidden",
        ),
        pytest.param(
            AuditedState(PROVIDER, {"VCPU": 4}, {"VCPU": 3}, {"i": {"VCPU": 1}}, consistent=False),
            [],
            id="changed between the two reads",
        ),
        pytest.param(
            AuditedState(PROVIDER, {"VCPU": 4}, {"VCPU": 1}, {"i": {"VCPU": 3}}), [], id="freed between the two reads"
        ),
    ],
)  # fmt: skip
def test_numbers_of_a_provider(state, expected):
    assert [(one.kind, one.detail) for one in inventories(state, "compute-1")] == expected


def test_each_kind_has_a_next_step_that_names_no_other_words():
    cloud = two_hosts()
    found = [
        cloud.holds("n", "a").verdict("n"),
        cloud.instance("t", "a").holds("t", "a", "b").verdict("t"),
        cloud.instance("o", "a").holds("o", "b").verdict("o"),
        cloud.instance("h", None).holds("h", "a").verdict("h"),
        cloud.migration("m", "x", "a", "b", status="error").holds("m", "a").verdict("m"),
        cloud.instance("w", "a").verdict("w"),
        *inventories(AuditedState(PROVIDER, {"VCPU": 1}, {"VCPU": 2}), "a"),
        without_service(NodeRecord("s", "c1", "a", "a", has_service=False), "a"),
    ]
    assert {one.kind for one in found} == set(Kind)
    assert [one for one in found if "{" in one.next_step or not one.next_step] == []
