"""The short form: operations, some twenty tests of tempest and a swap there and back."""

import argparse
from collections.abc import Callable
import time

from tools.openstack import migrate, tempest
from tools.openstack.api import Api, ApiError, NotReachedError
from tools.openstack.audits import show_audits
from tools.openstack.layout import Layout
from tools.openstack.schedulers import Schedulers
from tools.openstack.services import Services

MEMBERS = 3


def main(layout: Layout, options: argparse.Namespace) -> int:
    """Do everything once; return 1 if something is not as promised."""
    Schedulers(layout).replace("berth")
    steps = Steps(layout)
    failed = [name for name, step in steps.all().items() if not _did(name, step)]
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

    def all(self) -> dict[str, Callable[[], bool]]:
        """Return the steps by name, in order."""
        return {
            "boot in a zone": self._boot,
            "group": self._group,
            "resize": self._resize,
            "migrate": self._migrate,
            "evacuate": self._evacuate,
        }

    def _booted(self, name: str, **more: object) -> str:
        server = self._api.boot(name, **more)  # type: ignore[arg-type]
        self._api.wait(server, "ACTIVE")
        return server

    def _boot(self) -> bool:
        server = self._booted("short-boot", availability_zone="az2", networks=self._api.network())
        host = self._api.host_of(server)
        self._api.delete(server)
        return self._layout.zone_of(host) == "az2"

    def _group(self) -> bool:
        group = self._api.make_group("short", "anti-affinity")
        servers = [
            self._api.boot(f"short-group-{number}", hints={"group": group}) for number in range(MEMBERS)
        ]
        hosts = {self._api.wait(server, "ACTIVE")["OS-EXT-SRV-ATTR:host"] for server in servers}
        self._api.delete(*servers)
        self._api.delete_group(group)
        return len(hosts) == MEMBERS

    def _resize(self) -> bool:
        server = self._booted("short-resize")
        self._api.act(server, "resize", {"flavorRef": self._api.flavors()["large"]})
        self._api.wait(server, "VERIFY_RESIZE")
        self._api.act(server, "confirmResize")
        found = self._api.wait(server, "ACTIVE")
        self._api.delete(server)
        return found["flavor"]["original_name"] == "large"

    def _migrate(self) -> bool:
        server = self._booted("short-migrate")
        before = self._api.host_of(server)
        self._api.act(server, "os-migrateLive", {"host": None, "block_migration": "auto"})
        after = self._api.wait(server, "ACTIVE")["OS-EXT-SRV-ATTR:host"]
        self._api.delete(server)
        return after != before and self._layout.hosts[after] == self._layout.hosts[before]

    def _evacuate(self) -> bool:
        server = self._booted("short-evacuate")
        dead = self._api.host_of(server)
        self._services[dead].kill()
        self._api.force_down(dead)
        self._api.act(server, "evacuate", {})
        try:
            self._api.wait(server, "ACTIVE", off=dead)
        finally:
            self._services.start(dead)
            self._api.force_up(dead)
        self._api.delete(server)
        return True


def _did(name: str, step: Callable[[], bool]) -> bool:
    begun, why = time.monotonic(), ""
    try:
        right = step()
    except (ApiError, NotReachedError) as error:
        right, why = False, f": {error}"
    print(f"{time.monotonic() - begun:5.0f} s  {name} {'is right' if right else 'is wrong'}{why}", flush=True)
    return right
