"""What is in the cloud before its first server: users and endpoints, zones, flavors, an image, networks."""

import contextlib
from typing import Any

from tools.openstack.api import ERRORS, Api, connect
from tools.openstack.layout import APIS, Layout
from tools.rig.service import until

#: vCPUs, MB and GB of each flavor.
FLAVORS = {
    "small": (1, 1024, 10),
    "large": (4, 8192, 40),
    "nano": (1, 64, 1),
    "micro": (1, 128, 1),
    "quarter": (32, 16384, 100),
}
#: CIDR of each network, and what else there is to say of it.
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "public": (
        "172.24.4.0/24",
        {
            "is_router_external": True,
            "provider_network_type": "flat",
            "provider_physical_network": "public",
        },
    ),
    "inside": ("10.7.0.0/16", {"is_shared": True}),
}


def make_catalog(layout: Layout) -> None:
    """Make the users of services, with the roles for service tokens, and the endpoints."""
    identity = connect(layout).identity

    def once(kind: str, name: str, **values: object) -> Any:
        return getattr(identity, f"find_{kind}")(name) or getattr(identity, f"create_{kind}")(
            name=name, **values
        )

    project = once("project", "service", domain_id="default")
    roles = [once("role", name) for name in ("service", "admin")]
    for name in APIS.values():
        if name != "keystone":  # which has made the catalog with its own endpoint
            user = once("user", name, password=layout.password, domain_id="default")
            for role in roles:
                identity.assign_project_role_to_user(project, user, role)
    for kind, name in APIS.items():
        if kind != "identity":
            service = once("service", name, type=kind)
            for interface in ("public", "internal", "admin"):
                identity.create_endpoint(
                    service_id=service.id,
                    interface=interface,
                    url=layout.url(kind),
                    region_id="RegionOne",
                )


def bring_back(layout: Layout) -> None:
    """Let computes take servers again that an interrupted scenario declared dead; they run by now."""
    api = Api(layout)
    for each in api.compute.services(binary="nova-compute"):
        if each.is_forced_down:
            api.force_up(each.host)


def wait_for_computes(layout: Layout, timeout: float) -> None:
    """Wait until all computes have reported to nova and to Placement.

    Raises:
        RuntimeError: The time is over.
    """
    cloud, missing = connect(layout), set(layout.hosts)

    def reported() -> bool:
        with contextlib.suppress(*ERRORS):
            services = cloud.compute.services(binary="nova-compute")
            up = {each.host for each in services if each.state == "up"}
            missing.difference_update(up & {each.name for each in cloud.placement.resource_providers()})
        return not missing

    until(reported, f"not all of {len(missing)} computes report", timeout)


def make(layout: Layout) -> None:
    """Make zones, flavors, the image and the networks."""
    cloud = connect(layout)
    for zone in layout.zones:
        aggregate = cloud.compute.find_aggregate(zone) or cloud.compute.create_aggregate(
            name=zone, availability_zone=zone
        )
        for host in layout.hosts:
            if layout.zone_of(host) == zone and host not in (aggregate.hosts or ()):
                cloud.compute.add_host_to_aggregate(aggregate, host)
    for name, (vcpus, ram, disk) in FLAVORS.items():
        if not cloud.compute.find_flavor(name):
            cloud.compute.create_flavor(name=name, vcpus=vcpus, ram=ram, disk=disk)
    for name in ("guest", "guest-alt"):
        if not cloud.image.find_image(name):
            kinds = {"disk_format": "raw", "container_format": "bare", "visibility": "public"}
            cloud.image.create_image(name, data=name.encode(), **kinds)
    for name, (cidr, more) in NETWORKS.items():
        if not cloud.network.find_network(name):
            network = cloud.network.create_network(name=name, **more)
            cloud.network.create_subnet(network_id=network.id, ip_version=4, cidr=cidr, is_dhcp_enabled=False)
