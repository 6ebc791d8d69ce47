from scheduler.numa.fit import Fitter
from scheduler.numa.usage import InstanceDemand, consume_instance
from scheduler.pci.pools import PoolSet, from_flat
from scheduler.pci.requests import make_request
from tests.unit.numa.shapes import guest, host, host_cell, pinned

NIC = {"vendor_id": "8086", "product_id": "154d", "count": 1}
POOLS = from_flat([{**NIC, "numa_node": 0}])
REQUEST = make_request(1, [{"vendor_id": "8086"}], alias_name="nic", numa_policy="required")
ONE = host(host_cell(0))


def consumed(topology=ONE, wanted=guest(pinned()), pools=POOLS, requests=(REQUEST,)):  # noqa: B008 - a value
    return consume_instance(Fitter(), topology, pools, InstanceDemand(wanted, requests=requests))


def test_guest_that_does_not_fit_loses_its_topology():
    done = consumed(wanted=guest(pinned(vcpus=9)))
    assert (done.host, done.guest, done.problem) == (ONE, None, "")
    assert done.pools.free_devices == 0


def test_missing_devices_are_a_problem_and_keep_the_guest():
    done = consumed(pools=PoolSet(), topology=None)
    assert done.problem == "no pool matches vendor 8086 (PCI alias nic)"
    assert done.guest == guest(pinned())
