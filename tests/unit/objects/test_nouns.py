"""The smaller objects, one or two tests each."""

import pytest

from scheduler import objects
from tests.support.wire_examples import envelope, message


def read(name, version="1.0", **data):
    return objects.hydrate(envelope(name, data, version))


def cell(**values):
    return objects.InstanceNUMACell(**({"id": 0, "cpuset": set(), "pcpuset": set(), "memory": 4} | values))


def test_numa_cell_sets():
    found = cell(cpuset={0, 1}, pcpuset={2})
    assert found.total_cpus == {0, 1, 2}
    assert len(found) == 3
    assert found.cpu_policy is None
    assert found.cpu_pinning is None


def test_numa_cell_pinning():
    found = cell(pcpuset={0, 1})
    found.cpu_pinning = {0: 8}
    assert found.cpu_pinning == {0: 8}
    assert found.cpu_pinning_raw == {"0": 8}
    found.clear_host_pinning()
    assert (found.id, found.cpu_pinning) == (-1, {})
    found.cpu_pinning = None
    assert found.cpu_pinning_raw is None


@pytest.mark.parametrize(
    ("threads", "siblings"), [(None, []), (1, []), (2, [{0, 1}, {2, 3}]), (3, [{0, 1, 2}]), (8, [])]
)
def test_numa_cell_siblings(threads, siblings):
    topology = None if threads is None else objects.VirtCPUTopology(threads=threads)
    assert cell(cpuset={0, 1, 2, 3, 4}, cpu_topology=topology).siblings == siblings


@pytest.mark.parametrize(
    ("data", "cpuset", "pcpuset"),
    [
        ({"cpuset": [0, 1], "cpu_policy": "dedicated"}, set(), {0, 1}),
        ({"cpuset": [0, 1], "cpu_policy": "shared"}, {0, 1}, set()),
        ({"cpuset": [0, 1]}, {0, 1}, set()),
        ({"cpuset": [0], "pcpuset": [1], "cpu_policy": "mixed"}, {0}, {1}),
        ({"cpuset": [0], "pcpuset": [], "cpu_policy": "dedicated"}, {0}, set()),
    ],
)
def test_numa_cell_of_an_older_peer(data, cpuset, pcpuset):
    found = read("InstanceNUMACell", "1.4", id=0, memory=4, **data)
    assert (found.cpuset, found.pcpuset) == (cpuset, pcpuset)


@pytest.mark.parametrize("version", ["1.5", "1.6", "1.10"])
def test_numa_cell_of_a_peer_that_knows_pinned_cpus(version):
    found = read("InstanceNUMACell", version, id=0, memory=4, cpuset=[0, 1], cpu_policy="dedicated")
    assert (found.cpuset, found.pcpuset) == ({0, 1}, set())


def test_numa_cell_without_cpus():
    assert "cpuset" not in read("InstanceNUMACell", "1.4", id=0, cpu_policy="dedicated")


def test_numa_topology():
    topology = objects.InstanceNUMATopology(
        cells=[
            cell(pcpuset={0}, cpu_policy="dedicated", cpu_pinning_raw={"0": 4}, cpuset_reserved={9}),
            cell(pcpuset={1}, cpu_policy="dedicated", cpu_pinning_raw={"1": 5}),
        ]
    )
    assert len(topology) == 2
    assert topology.cpu_policy == "dedicated"
    assert topology.cpu_pinning == {4, 5}
    assert topology.cpuset_reserved == {9}
    assert not topology.emulator_threads_isolated
    topology.cells[1].cpu_policy = "shared"
    with pytest.raises(objects.InvalidField):
        _ = topology.cpu_policy
    topology.clear_host_pinning()
    assert topology.cpu_pinning == set()


def test_empty_numa_topology_is_false():
    assert not objects.InstanceNUMATopology(cells=[])
    assert not read("InstanceNUMATopology")
    assert objects.InstanceNUMATopology().cpu_policy is None


@pytest.mark.parametrize(
    ("data", "rules"),
    [
        ({}, {}),
        ({"_rules": {}}, {}),
        ({"_rules": {"max_server_per_host": "2", "other": "x"}}, {"max_server_per_host": 2}),
    ],
)
def test_group_rules(data, rules):
    assert read("InstanceGroup", **data).rules == rules


def test_group_rule_that_is_no_number():
    with pytest.raises(objects.InvalidField):
        _ = read("InstanceGroup", _rules={"max_server_per_host": "x"}).rules


@pytest.mark.parametrize(
    ("alias", "source"),
    [("gpu", objects.InstancePCIRequest.FLAVOR_ALIAS), (None, objects.InstancePCIRequest.NEUTRON_PORT)],
)
def test_pci_request_source(alias, source):
    assert objects.InstancePCIRequest(alias_name=alias).source == source
    assert objects.InstancePCIRequest().numa_policy is None


def test_destination_unset():
    where = read("Destination")
    assert (where.host, where.node, where.cell, where.aggregates) == (None, None, None, None)
    assert where.allow_cross_cell_move is False
    assert "host" not in where


def test_limits():
    limits = objects.SchedulerLimits.from_dict({"vcpu": 4})
    assert limits.to_dict() == {"vcpu": 4}
    assert limits.memory_mb is None


def test_retries():
    retries = objects.SchedulerRetries.from_dict(None, {"num_attempts": 2, "hosts": [["h", "n"]]})
    assert retries.to_dict() == {"num_attempts": 2, "hosts": [["h", "n"]]}


@pytest.mark.parametrize(
    ("networks", "auto", "none", "unspecified"),
    [
        ([], False, False, False),
        (["auto"], True, False, False),
        (["none"], False, True, False),
        ([None], False, False, True),
        (["n1"], False, False, False),
        (["auto", "none"], False, False, False),
    ],
)
def test_network_requests(networks, auto, none, unspecified):
    asked = objects.NetworkRequestList(objects=[objects.NetworkRequest(network_id=n) for n in networks])
    assert [asked.auto_allocate, asked.no_allocate, asked.is_single_unspecified] == [auto, none, unspecified]


def test_security_group_identifier():
    assert objects.SecurityGroup(name="web").identifier == "web"
    assert objects.SecurityGroup(name="web", uuid="u").identifier == "u"


@pytest.mark.parametrize("data", [{}, {"hosts": None, "metadata": None}, {"hosts": [], "metadata": {}}])
def test_empty_aggregate(data):
    aggregate = read("Aggregate", id=1, **data)
    assert (aggregate.hosts, aggregate.metadata, aggregate.availability_zone) == ([], {}, None)


def test_aggregate_zone():
    assert read("Aggregate", metadata={"availability_zone": "az1"}).availability_zone == "az1"


def test_instances_are_read_for_what_rules_need():
    found = objects.hydrate(message("fanout_update_instance_info")["args"]["instance_info"])
    assert [instance.uuid for instance in found] == ["7900ba8a-8511-4a08-8212-8b095944aa3f"]
    assert found[0].system_metadata["image_hw_machine_type"] == "pc"
    assert sorted(dict(found[0].set_fields())) == ["image_ref", "system_metadata", "uuid"]


def test_flavor_as_dict():
    flavor = objects.Flavor(vcpus=2, memory_mb=512)
    assert flavor["vcpus"] == 2
    assert flavor.get("root_gb", 7) == 7
    assert dict(flavor.items()) == {"vcpus": 2, "memory_mb": 512}


def test_selection_to_dict():
    chosen = objects.Selection(service_host="h", nodename="n", limits=objects.SchedulerLimits.from_dict({}))
    assert chosen.to_dict() == {"host": "h", "nodename": "n", "limits": {}}
    numa = objects.NUMATopologyLimits(cpu_allocation_ratio=4.0, ram_allocation_ratio=1.0)
    chosen.limits = objects.SchedulerLimits.from_dict({"numa_topology": numa, "vcpu": 3})
    assert chosen.to_dict()["limits"] == {"numa_topology": numa.obj_to_primitive(), "vcpu": 3}
    chosen.limits = None
    assert chosen.to_dict()["limits"] == {}


def test_selections_compare_by_value():
    assert objects.Selection(nodename="n") == objects.Selection(nodename="n")
    assert objects.Selection(nodename="n") != objects.Selection(nodename="m")
