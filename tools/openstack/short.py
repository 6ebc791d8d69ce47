"""The short form: operations, some twenty tests of tempest and a swap there and back."""

import argparse
import time

from tools.openstack import migrate, tempest
from tools.openstack.api import ERRORS, Api
from tools.openstack.layout import Layout
from tools.openstack.programs import show_audits
from tools.openstack.services import Schedulers, Services

MEMBERS = 3


def main(layout: Layout, options: argparse.Namespace) -> int:
    """Do everything once; return 1 if something is not as promised."""
    Schedulers(layout).replace("berth")
    steps = Steps(layout)
    failed = [name for name in STEPS if not steps.did(name)]
    begun = time.monotonic()
    if tempest.main(layout, options):
        failed.append("tempest")
    print(f"{time.monotonic() - begun:5.0f} s  tempest", flush=True)
    if migrate.main(layout, options):
        failed.append("migrate")
    print(f"not as promised: {', '.join(failed)}" if failed else "everything is as promised", flush=True)
    return 1 if failed or not show_audits(layout) else 0


class Steps:
    """Operations through the API, each with what must hold after it."""

    def __init__(self, layout: Layout) -> None:
        """Describe them."""
        self._layout = layout
        self._api = Api(layout)
        self._services = Services(layout)

    def did(self, name: str) -> bool:
        """Do a step, say how it went, and return whether it is right."""
        begun, why = time.monotonic(), ""
        try:
            right = STEPS[name](self)
        except ERRORS as error:
            right, why = False, f": {error}"
        took = f"{time.monotonic() - begun:5.0f} s"
        print(f"{took}  {name} {'is right' if right else 'is wrong'}{why}", flush=True)
        return right

    def _booted(self, name: str, **more: object) -> str:
        server = self._api.boot(name, **more)  # type: ignore[arg-type]
        self._api.wait(server, "ACTIVE")
        return server

    def boot(self) -> bool:
        """A server on a network in a zone."""
        network = self._api.cloud.network.find_network("inside", ignore_missing=False)
        networks = [{"uuid": network.id}]
        server = self._booted("short-boot", availability_zone="az2", networks=networks)
        host = self._api.host_of(server)
        self._api.delete(server)
        return self._layout.zone_of(host) == "az2"

    def group(self) -> bool:
        """Members of a group that keep apart."""
        group = self._api.compute.create_server_group(name="short", policy="anti-affinity")
        names = [f"short-group-{number}" for number in range(MEMBERS)]
        servers = [self._api.boot(name, scheduler_hints={"group": group.id}) for name in names]
        hosts = {self._api.wait(server, "ACTIVE").compute_host for server in servers}
        self._api.delete(*servers)
        self._api.compute.delete_server_group(group)
        return len(hosts) == MEMBERS

    def resize(self) -> bool:
        """A server with a larger flavor."""
        server = self._booted("short-resize")
        found = self._api.resize(server)
        self._api.delete(server)
        return found.flavor.original_name == "large"

    def migrate(self) -> bool:
        """A server that goes to another host of its cell while it runs."""
        server = self._booted("short-migrate")
        before = self._api.host_of(server)
        after = self._api.live_migrate(server).compute_host
        self._api.delete(server)
        return self._layout.hosts[after] == self._layout.hosts[before]

    def evacuate(self) -> bool:
        """A server whose compute is dead."""
        server = self._booted("short-evacuate")
        dead = self._api.host_of(server)
        with self._services.dead(dead, self._api):
            found = self._api.evacuate(server)
        self._api.delete(server)
        return found.status == "ACTIVE"


STEPS = {
    "boot in a zone": Steps.boot,
    "group": Steps.group,
    "resize": Steps.resize,
    "migrate": Steps.migrate,
    "evacuate": Steps.evacuate,
}
