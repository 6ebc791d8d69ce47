from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.pci.consumption import ChosenCells, PciRefusal, PciStep, consume_devices
from scheduler.pci.offer import make_offer
from scheduler.pci.pools import from_flat
from scheduler.pci.requests import make_request
from scheduler.pci.support import explain_refusal

POLICIES = st.sampled_from(("legacy", "required", "preferred", "socket"))
NEAR = ChosenCells(frozenset({0}), ((0, 7), (1, 7), (2, 8)))


def pools(*counts_by_node, **tags):
    return from_flat({"vendor_id": "8086", "numa_node": n, "count": c, **tags} for n, c in counts_by_node)


def nic(count=1, policy="legacy", **members):
    members = {"alias_name": "nic", "request_id": "r", "numa_policy": policy, **members}
    return make_request(count, [{"vendor_id": "8086"}], **members)


@pytest.mark.parametrize(
    ("listed", "request_", "left"),
    [
        (((1, 1), (0, 1)), nic(policy="required"), [1, None]),
        (((1, 1), (0, 1)), nic(2, "required"), PciStep.NUMA),
        (((None, 1), (0, 1)), nic(), [1, None]),
        (((None, 1), (0, 1)), nic(2), [None, None]),
        (((None, 1), (1, 1)), nic(2), PciStep.NUMA),
        (((1, 2), (None, 1), (0, 1)), nic(3, "preferred"), [1, None, None]),
        (((1, 1), (2, 1)), nic(policy="socket"), [None, 1]),
        (((2, 1),), nic(policy="socket"), PciStep.NUMA),
        (((2, 1),), nic(policy="preferred"), [None]),
        (((0, 3), (0, 3)), nic(4), [None, 2]),
        (((0, 1),), nic(0), [1]),
        (((0, 0),), nic(0), [None]),
        ((), nic(0), PciStep.DESCRIPTION),
    ],
)
def test_numa_policy_decides_which_pools_serve_a_request(listed, request_, left):
    counts, refusal = consume_devices(make_offer(pools(*listed), (request_,)), NEAR)
    assert (refusal.step if refusal else counts) == left


@pytest.mark.parametrize("sockets", [None, (), ((0, None), (1, 7)), ((0, 7), (1, None))])
def test_socket_policy_needs_all_sockets(sockets):
    _, refusal = consume_devices(
        make_offer(pools((1, 1)), (nic(policy="socket"),)), ChosenCells(frozenset({0}), sockets)
    )
    assert refusal == PciRefusal(0, PciStep.NUMA)


def test_near_pools_that_may_not_be_used_still_count_as_near():
    both = from_flat(
        [
            {"vendor_id": "8086", "numa_node": 0, "count": 1, "dev_type": "type-PF"},
            {"vendor_id": "8086", "numa_node": 1, "count": 1},
        ]
    )
    assert consume_devices(make_offer(both, (nic(policy="preferred"),)), NEAR)[1] == PciRefusal(
        0, PciStep.USE
    )


def test_each_provider_gives_as_often_as_it_is_named():
    listed = from_flat({"vendor_id": "8086", "count": 2, "rp_uuid": name} for name in "abc")
    offer = make_offer(listed, (nic(3),), {"r-0": ["a"], "r-1": ["a"], "r-2": ["c"]})
    assert consume_devices(offer, ChosenCells()) == ([None, 2, 1], None)


@pytest.mark.parametrize(
    ("names", "bound", "step"),
    [
        ("ab", ["c"], PciStep.PLACEMENT),
        ("a", ["a", "a", "a"], PciStep.PLACEMENT),
        ("abb", ["a"], PciStep.AMBIGUOUS),
        ("a", [""], PciStep.PLACEMENT),
    ],
)
def test_bound_requests_refused(names, bound, step):
    listed = from_flat({"vendor_id": "8086", "count": 2, "rp_uuid": name} for name in names)
    mappings = {f"r-{number}": [name] for number, name in enumerate(bound)}
    assert consume_devices(make_offer(listed, (nic(),), mappings), ChosenCells())[1].step is step


def test_group_without_provider_is_refused():
    assert consume_devices(make_offer(pools((0, 1)), (nic(),), {"r-0": []}), ChosenCells())[1] == PciRefusal(
        0, PciStep.UNRESOLVED
    )


def test_what_was_taken_before_a_refusal_stays_taken():
    counts, refusal = consume_devices(make_offer(pools((0, 2)), (nic(1), nic(2))), ChosenCells())
    assert (counts, refusal) == ([1], PciRefusal(1, PciStep.DESCRIPTION, 1))


@given(
    st.lists(st.tuples(st.sampled_from((0, 1, None)), st.integers(0, 3)), max_size=5),
    st.lists(st.tuples(st.integers(0, 4), POLICIES), min_size=1, max_size=3),
    st.booleans(),
)
def test_takes_exactly_what_is_asked_or_says_why_not(listed, wanted, anywhere):
    host = pools(*listed)
    chosen = ChosenCells() if anywhere else NEAR
    offer = make_offer(host, tuple(nic(count, policy) for count, policy in wanted))
    counts, refusal = consume_devices(offer, chosen)
    served = wanted if refusal is None else wanted[: refusal.request]
    assert host.free_devices - sum(count or 0 for count in counts) == sum(count for count, _ in served)
    assert all(left is None or 0 <= left <= before for left, before in zip(counts, host.counts, strict=True))
    assert consume_devices(offer, chosen) == (counts, refusal)


@pytest.mark.parametrize(
    ("step", "free", "line"),
    [
        (PciStep.DESCRIPTION, 0, "no pool matches vendor 8086 (PCI alias nic)"),
        (PciStep.DESCRIPTION, 1, "only 1 of 2 devices free that match vendor 8086 (PCI alias nic)"),
        (
            PciStep.NUMA,
            1,
            "only 1 of 2 devices free that match vendor 8086 (PCI alias nic) for NUMA policy required on NUMA cells 0, 3",
        ),
        (
            PciStep.USE,
            0,
            "only 0 of 2 devices free that match vendor 8086 (PCI alias nic); other matching devices are PF, vDPA or remote-managed and must be requested explicitly, or differ in live_migratable",
        ),
        (
            PciStep.PLACEMENT,
            1,
            "only 1 of 2 devices free that match vendor 8086 (PCI alias nic) in the providers that Placement chose",
        ),
        (
            PciStep.AMBIGUOUS,
            0,
            "two pools of the host have the same Placement provider; requested: vendor 8086 (PCI alias nic)",
        ),
        (PciStep.UNRESOLVED, 0, "Placement chose no provider for vendor 8086 (PCI alias nic)"),
    ],
)
def test_each_step_that_refuses_has_its_reason(step, free, line):
    offer = make_offer(pools((0, 1)), (nic(2, "required"),))
    assert explain_refusal(PciRefusal(0, step, free), offer, ChosenCells(frozenset({0, 3}))) == line
