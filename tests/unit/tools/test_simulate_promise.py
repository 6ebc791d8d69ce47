"""The checks of the promise."""

import pytest

from tools.simulation.broker import Message
from tools.simulation.callers import Call, Instance
from tools.simulation.placement import Consumer, Placement, Provider
from tools.simulation.promise import check_allocations, check_calls, check_groups, check_waits
from tools.simulation.runtime import Runtime

AMOUNTS = {"VCPU": 1}
HOSTS = [f"a0000000-0000-4000-8000-{number:012d}" for number in range(3)]
A, B, SOURCE = HOSTS
OLD = {SOURCE: {"VCPU": 5}}


def rows(*hosts):
    return {host: dict(AMOUNTS) for host in hosts}


def kinds(held, *, shown=True, **instance):
    """The kinds of violations of one instance that holds these rows."""
    placement = Placement([Provider(host, {"VCPU": {"total": 9}}) for host in HOSTS])
    if held:
        placement.rows["i"] = held
        if shown:
            placement.consumers["i"] = Consumer(1, "p", "u", 0)
    return [found.kind for found in check_allocations(placement, [Instance(1, "i", **instance)], AMOUNTS)]


@pytest.mark.parametrize(
    ("held", "instance"),
    [
        pytest.param({}, {}, id="nobody was told, nothing is held"),
        pytest.param(rows(A), {"host": A}, id="what the caller was told"),
        pytest.param({**rows(A), **OLD}, {"host": A, "source": OLD}, id="an evacuation"),
        pytest.param(OLD, {"source": OLD}, id="an evacuation that failed"),
        pytest.param({}, {"source": OLD, "deleted": True}, id="an evacuation, then deleted"),
        pytest.param({}, {"late": {A}}, id="a late answer, nothing is held"),
        pytest.param(rows(A), {"late": {A, B}}, id="a late answer, held"),
        pytest.param(rows(B), {"late": {A, B}, "deleted": True}, id="a late answer for a deleted instance"),
    ],
)
def test_the_promise_holds(held, instance):
    assert kinds(held, **instance) == []


@pytest.mark.parametrize(
    ("held", "instance", "kind"),
    [
        (rows(A), {}, "leak"),
        (rows(A), {"deleted": True}, "leak"),
        ({}, {"host": A}, "lost"),
        (rows(B), {"host": A}, "moved"),
        (rows(A, B), {"host": A}, "doubled"),
        (rows(A, B), {"late": {A, B}}, "leak"),
        (rows(B), {"host": A, "late": {B}}, "moved"),
        ({A: {"VCPU": 2}}, {"host": A}, "doubled"),
        (OLD, {"host": A, "source": OLD}, "lost"),
        (rows(A), {"host": A, "source": OLD}, "source lost"),
        ({}, {"source": OLD}, "source lost"),
        ({**rows(A), **OLD}, {"source": OLD}, "leak"),
        (OLD, {"source": OLD, "deleted": True}, "source restored"),
    ],
)
def test_a_violation_has_its_kind(held, instance, kind):
    assert kinds(held, **instance) == [kind]


def test_rows_that_placement_does_not_show_are_found():
    assert kinds(rows(A), shown=False, host=A) == ["hidden"]


@pytest.mark.parametrize(
    ("policy", "most", "hosts", "holds"),
    [
        ("affinity", 0, [A, A, None], True),
        ("affinity", 0, [A, B], False),
        ("anti-affinity", 1, [A, B, None, None], True),
        ("anti-affinity", 1, [A, B, A], False),
        ("anti-affinity", 2, [A, B, A], True),
        ("anti-affinity", 2, [A, A, A], False),
        ("soft-affinity", 0, [A, B], True),
    ],
)
def test_members_of_a_group_are_where_its_policy_allows(policy, most, hosts, holds):
    members = [Instance(number, f"i{number}", host=host) for number, host in enumerate(hosts)]
    assert [found.kind for found in check_groups(policy, most, members)] == ([] if holds else ["policy"])


def message(number=1, **fields):
    return Message(number, "replies", 0.0, **fields)


def processes():
    with Runtime(1) as runtime:
        alive, dead = runtime.process("alive"), runtime.process("dead")
        runtime.kill(dead)
    return alive, dead


def test_calls_without_a_reply_are_found():
    alive, dead = processes()
    working, killed, answered, queued = (
        message(1, working={alive: 0.0}),
        message(2, working={dead: 0.0}),
        message(3, replies=[1.0]),
        message(4),
    )
    calls = [Call(each) for each in (working, killed, answered, queued)]
    assert [found.kind for found in check_calls(calls, [queued])] == ["stuck", "unanswered"]


def test_calls_whose_conductor_is_gone_need_no_reply():
    assert not list(check_calls([Call(message(), orphaned=True)], []))


def test_calls_whose_caller_has_given_up_need_no_reply():
    calls = [Call(message(abandoned=[70.0]), ended=ended) for ended in (60.0, 80.0)]
    assert [found.kind for found in check_calls(calls, [])] == ["unanswered"]


def test_waits_beyond_the_caller_s_are_found():
    calls = [Call(message(waits=[1.0, 500.0])), Call(message(waits=[100.0])), Call(message())]
    assert [found.kind for found in check_waits(calls, 60.0, 0.0)] == ["slow"]
    assert not list(check_waits(calls, 60.0, 400.0))
