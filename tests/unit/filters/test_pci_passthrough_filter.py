"""PciPassthroughFilter (spec: filters-and-weighers 2.20); the check itself is tested with scheduler.pci."""

from scheduler import objects
from scheduler.filters.pci_passthrough_filter import PciPassthroughFilter
from scheduler.pci import support
from scheduler.pci.pools import from_flat
from tests.builders import make_host, make_view
from tests.unit.filters.asking import candidate, make_conf, make_request, verdicts, why

NIC = {"vendor_id": "8086", "product_id": "1", "numa_node": 0}
POOLS = from_flat([{**NIC, "count": 2}])


def wants(count=1, **fields):
    given = {"spec": [{"vendor_id": "8086"}], "alias_name": "nic", "request_id": "r", **fields}
    return objects.InstancePCIRequests(requests=[objects.InstancePCIRequest(count=count, **given)])


def host(name="h", pools=POOLS, candidates=2):
    return make_host(name).pci(pools).candidate(*(candidate() for _ in range(candidates)))


def judge(hosts, pci_requests):
    rule, view = PciPassthroughFilter(make_conf()), make_view(hosts)
    request = make_request(pci_requests=pci_requests)
    return verdicts(rule, view, request), view


def test_like_hosts_cost_one_question(monkeypatch):
    asked, served = [], support.served

    def counted(*args):
        asked.append(args)
        return served(*args)

    monkeypatch.setattr(support, "served", counted)
    hosts = [
        host(str(number), from_flat([{**NIC, "count": 2, "rp_uuid": str(number)}])) for number in range(9)
    ]
    assert judge(hosts, wants())[0] == [True] * 9
    assert len(asked) == 2, "once for each candidate of a host"


def test_reasons():
    request = make_request(pci_requests=wants(3))
    assert why(PciPassthroughFilter, host(pools=None), request) == "no PCI devices reported"
    reason = why(PciPassthroughFilter, host(), request)
    assert reason.startswith("no allocation candidate satisfies the PCI requests: ")
