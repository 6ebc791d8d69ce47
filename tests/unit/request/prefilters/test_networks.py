import pytest

from scheduler import errors
from scheduler.request.prefilters import networks
from tests.unit.request.builders import (
    FakeNetwork,
    make_conf,
    make_networks,
    make_pci_requests,
    make_services,
    make_spec,
    required,
)

ROUTED = "query_placement_for_routed_network_aggregates"
PORT = {"port_id": "P"}
DOWN = errors.NetworkError("down")

NEUTRON = {"networks": {"bare": ["seg1", "lost"], "down": DOWN}}
SEGMENTS = {"seg1": ["a1"]}


def run_routed(spec, *switches, neutron=NEUTRON):
    services = make_services(
        make_conf(*switches), network=FakeNetwork(**neutron), provider_aggregates=SEGMENTS
    )
    return networks.routed_networks_filter(spec, None, services)


@pytest.mark.parametrize(
    ("requested", "neutron", "reason"),
    [
        ({"network_id": "bare"}, NEUTRON, "Aggregates not found for the network bare"),
        ({"network_id": "down"}, NEUTRON, "Aggregates not found for the network down"),
        (
            {"port_id": "P"},
            {"ports": {"P": {"fixed_ips": [{"subnet_id": "bare"}]}}, "subnets": {"bare": "lost"}},
            "Aggregates not found for the subnet bare",
        ),
        (
            {"port_id": "P"},
            {"ports": {"P": {"fixed_ips": [{"subnet_id": "down"}]}}, "subnets": {"down": DOWN}},
            "Aggregates not found for the subnet down",
        ),
    ],
)
def test_routed_network_without_aggregates(requested, neutron, reason):
    spec = make_spec(requested_networks=make_networks(requested))
    with pytest.raises(errors.RequestFilterFailed) as caught:
        run_routed(spec, ROUTED, neutron=neutron)
    assert caught.value.reason == f"Scheduling failed: {reason}"


def test_routed_port_that_cannot_be_read():
    spec = make_spec(requested_networks=make_networks(PORT))
    with pytest.raises(errors.PortNotFound):
        run_routed(spec, ROUTED, neutron={"ports": {"P": errors.PortNotFound("P")}})


def pci(remote_managed, **fields):
    spec = {"physical_network": None}
    if remote_managed is not None:
        spec["remote_managed"] = remote_managed
    return make_pci_requests({"spec": [spec], "requester_id": "P", "request_id": "R", **fields})


NO_PCI = make_pci_requests()

TOLD = [
    ("field unset", {}, False),
    ("no networks", {"requested_networks": make_networks()}, False),
    ("network only", {"requested_networks": make_networks({"network_id": "N"})}, False),
    ("ordinary port", {"requested_networks": make_networks(PORT), "pci_requests": NO_PCI}, False),
    ("SR-IOV port", {"requested_networks": make_networks(PORT), "pci_requests": pci("False")}, False),
    ("remote-managed", {"requested_networks": make_networks(PORT), "pci_requests": pci("True")}, True),
    (
        "found by request id",
        {
            "requested_networks": make_networks({"port_id": "P", "pci_request_id": "R"}),
            "pci_requests": pci("True", requester_id=None),
        },
        True,
    ),
    (
        "second port",
        {"requested_networks": make_networks({"port_id": "other"}, PORT), "pci_requests": pci("True")},
        True,
    ),
    (
        "somebody else's",
        {"requested_networks": make_networks({"port_id": "other"}), "pci_requests": pci("True")},
        False,
    ),
]


@pytest.mark.parametrize(("fields", "remote"), [case[1:] for case in TOLD], ids=[case[0] for case in TOLD])
def test_remote_managed_ports_told_by_the_request(fields, remote):
    spec = make_spec(**fields)
    network = FakeNetwork()
    assert networks.remote_managed_ports_filter(spec, None, make_services(network=network)) is True
    assert required(spec) == ({"COMPUTE_REMOTE_MANAGED_PORTS"} if remote else set())
    assert network.asked == []


@pytest.mark.parametrize("fields", [{}, {"pci_requests": None}, {"pci_requests": pci(None)}])
@pytest.mark.parametrize(("vnic_type", "remote"), [("normal", False), ("remote-managed", True)])
def test_remote_managed_ports_asked_of_neutron(fields, vnic_type, remote):
    spec = make_spec(requested_networks=make_networks(PORT), **fields)
    network = FakeNetwork(ports={"P": {"binding:vnic_type": vnic_type}})
    networks.remote_managed_ports_filter(spec, None, make_services(network=network))
    assert required(spec) == ({"COMPUTE_REMOTE_MANAGED_PORTS"} if remote else set())
    assert network.asked == [("port", "P")]


def test_neutron_trouble_ends_the_request():
    spec = make_spec(requested_networks=make_networks(PORT))
    services = make_services(network=FakeNetwork(ports={"P": DOWN}))
    with pytest.raises(errors.NetworkError):
        networks.remote_managed_ports_filter(spec, None, services)
