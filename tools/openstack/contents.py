"""What is in the cloud before its first server: users and endpoints, zones, flavors, an image, networks."""

import time

from tools.openstack.api import Api, ApiError
from tools.openstack.layout import APIS, Layout

#: vCPUs, MB and GB of each flavor.
FLAVORS = {
    "small": (1, 1024, 10),
    "large": (4, 8192, 40),
    "nano": (1, 64, 1),
    "micro": (1, 128, 1),
    "quarter": (32, 16384, 100),
}
SERVICE_NAMES = {kind: f"{name} of the cloud" for kind, name in APIS.items()}


class Contents:
    """Makes what a cloud has."""

    def __init__(self, layout: Layout) -> None:
        """Describe it; each method needs the services that it uses."""
        self._layout = layout
        self._api = Api(layout)

    def make_catalog(self) -> None:
        """Make the users of services, with the roles for service tokens, and the endpoints."""
        project = self._identity("projects", "project", name="service", domain_id="default")
        roles = {each["name"]: each["id"] for each in self._api("identity", "GET", "/roles")["roles"]}
        for role in ("service", "admin"):
            roles.setdefault(role, "") or roles.update({role: self._identity("roles", "role", name=role)})
        for name in ("nova", "glance", "neutron", "placement"):
            user = self._identity(
                "users", "user", name=name, password=self._layout.password, domain_id="default"
            )
            for role in ("admin", "service"):
                self._api("identity", "PUT", f"/projects/{project}/users/{user}/roles/{roles[role]}")
        for kind, name in APIS.items():
            if kind == "identity":
                continue
            service = self._identity("services", "service", name=name, type=kind)
            for interface in ("public", "internal", "admin"):
                self._identity(
                    "endpoints",
                    "endpoint",
                    service_id=service,
                    interface=interface,
                    url=self._layout.url(kind),
                    region="RegionOne",
                )

    def _identity(self, path: str, what: str, **values: str) -> str:
        """Make something in Keystone unless there is one with its name, and return its ID."""
        if "name" in values:
            found = self._api("identity", "GET", f"/{path}?name={values['name']}")[path]
            if found:
                return found[0]["id"]
        return self._api("identity", "POST", f"/{path}", {what: values})[what]["id"]

    def bring_back(self) -> None:
        """Let computes take servers again that an interrupted scenario declared dead; they run by now."""
        for each in self._api.services():
            if each["forced_down"]:
                self._api.force_up(each["host"])

    def wait_for_computes(self, timeout: float) -> None:
        """Wait until all computes have reported to nova and to Placement.

        Raises:
            RuntimeError: The time is over.
        """
        deadline = time.monotonic() + timeout
        wanted = set(self._layout.hosts)
        missing = wanted
        while missing:
            if time.monotonic() > deadline:
                raise RuntimeError(f"these computes do not report: {', '.join(sorted(missing))}")
            time.sleep(1)
            try:
                up = {each["host"] for each in self._api.services() if each["state"] == "up"}
                found = self._api("placement", "GET", "/resource_providers")["resource_providers"]
            except ApiError:
                continue
            missing = wanted - (up & {each["name"] for each in found})

    def make(self) -> None:
        """Make zones, flavors, the image and the networks."""
        have = {each["name"]: each for each in self._api.compute("GET", "/os-aggregates")["aggregates"]}
        for zone in sorted({self._layout.zone_of(host) for host in self._layout.hosts}):
            if zone not in have:
                body = {"aggregate": {"name": zone, "availability_zone": zone}}
                have[zone] = self._api.compute("POST", "/os-aggregates", body)["aggregate"]
        for host in self._layout.hosts:
            zone = have[self._layout.zone_of(host)]
            if host not in zone.get("hosts", ()):
                self._api.compute("POST", f"/os-aggregates/{zone['id']}/action", {"add_host": {"host": host}})
        known = self._api.flavors()
        for name, (vcpus, ram, disk) in FLAVORS.items():
            if name not in known:
                self._api.compute(
                    "POST", "/flavors", {"flavor": {"name": name, "vcpus": vcpus, "ram": ram, "disk": disk}}
                )
        self._make_images()
        self._make_networks()

    def _make_images(self) -> None:
        for name in ("guest", "guest-alt"):
            if self._api("image", "GET", f"/v2/images?name={name}")["images"]:
                continue
            values = {"name": name, "disk_format": "raw", "container_format": "bare", "visibility": "public"}
            image = self._api("image", "POST", "/v2/images", values)["id"]
            headers = {"Content-Type": "application/octet-stream"}
            self._api("image", "PUT", f"/v2/images/{image}/file", data=name.encode(), headers=headers)

    def _make_networks(self) -> None:
        have = {each["name"] for each in self._api("network", "GET", "/v2.0/networks")["networks"]}
        networks = {
            "public": (
                "172.24.4.0/24",
                {
                    "router:external": True,
                    "provider:network_type": "flat",
                    "provider:physical_network": "public",
                },
            ),
            "inside": ("10.7.0.0/16", {"shared": True}),
        }
        for name, (cidr, more) in networks.items():
            if name not in have:
                body = {"network": {"name": name, **more}}
                network = self._api("network", "POST", "/v2.0/networks", body)["network"]["id"]
                subnet = {"network_id": network, "ip_version": 4, "cidr": cidr, "enable_dhcp": False}
                self._api("network", "POST", "/v2.0/subnets", {"subnet": subnet})
