"""PciPassthroughFilter (spec: filters-and-weighers 2.20); the check itself is tested with scheduler.pci."""

import pytest

from scheduler import objects
from scheduler.filters.pci_passthrough_filter import PciPassthroughFilter
from scheduler.pci import support
from scheduler.pci.pools import PoolSet, from_flat
from tests.builders import make_host, make_view
from tests.unit.filters.asking import candidate, make_conf, make_request, verdicts, why

NIC = {"vendor_id": "8086", "product_id": "1", "numa_node": 0}
POOLS = from_flat([{**NIC, "count": 2}])
NEVER = "not asked"


def wants(count=1, **fields):
    given = {"spec": [{"vendor_id": "8086"}], "alias_name": "nic", "request_id": "r", **fields}
    return objects.InstancePCIRequests(requests=[objects.InstancePCIRequest(count=count, **given)])


def host(name="h", pools=POOLS, candidates=2):
    return make_host(name).pci(pools).candidate(*(candidate() for _ in range(candidates)))


def judge(hosts, pci_requests):
    rule, view = PciPassthroughFilter(make_conf()), make_view(hosts)
    request = make_request(pci_requests=pci_requests)
    return verdicts(rule, view, request), view


@pytest.mark.parametrize(
    ("row", "pci_requests", "pools", "supported", "passes", "left"),
    [
        (1, None, POOLS, NEVER, True, 2),
        (2, objects.InstancePCIRequests(requests=[]), None, NEVER, True, 2),
        (3, wants(), None, NEVER, False, 2),
        (4, wants(), POOLS, (0, 1), True, 2),
        (5, wants(), POOLS, (1,), True, 1),
        (6, wants(), POOLS, (), False, 0),
    ],
)
def test_table(monkeypatch, row, pci_requests, pools, supported, passes, left):
    def candidates(*args):
        assert supported != NEVER
        return supported

    monkeypatch.setattr(support, "usable_candidates", candidates)
    kept, view = judge([host(pools=pools)], pci_requests)
    assert kept == [passes]
    assert len(view.candidates(0)) == left


def test_row_7_without_candidates_nothing_is_supported():
    assert judge([host(candidates=0)], wants())[0] == [False]


def test_hosts_with_enough_devices_pass():
    hosts = [
        host("a"),
        host("empty", PoolSet()),
        host("b", from_flat([{**NIC, "count": 1}])),
        host("c", None),
    ]
    kept, view = judge(hosts, wants(2))
    assert kept == [True, False, False, False]
    assert [len(view.candidates(index)) for index in range(4)] == [2, 0, 0, 2]


def test_candidates_bound_to_other_devices_are_dropped():
    pools = [from_flat([{**NIC, "count": 1, "rp_uuid": name}]) for name in ("a", "b")]
    choices = [candidate(r0=["x"]), candidate(r0=["a"]), candidate(r0=["b"])]
    hosts = [make_host(name).pci(pool).candidate(*choices) for name, pool in zip("ab", pools, strict=True)]
    kept, view = judge(hosts, wants())
    assert kept == [True, True]
    assert [c.mappings["r0"] for c in view.candidates(0)] == [["a"]]
    assert [c.mappings["r0"] for c in view.candidates(1)] == [["b"]]


def test_like_hosts_cost_one_question(monkeypatch):
    asked, candidates = [], support.usable_candidates

    def counted(*args):
        asked.append(args)
        return candidates(*args)

    monkeypatch.setattr(support, "usable_candidates", counted)
    hosts = [
        host(str(number), from_flat([{**NIC, "count": 2, "rp_uuid": str(number)}])) for number in range(9)
    ]
    assert judge(hosts, wants())[0] == [True] * 9
    assert len(asked) == 1


def test_reasons():
    request = make_request(pci_requests=wants(3))
    assert why(PciPassthroughFilter, host(pools=None), request) == "no PCI devices reported"
    reason = why(PciPassthroughFilter, host(), request)
    assert reason.startswith("no allocation candidate satisfies the PCI requests: ")
