"""The short form: operations, some twenty tests of tempest and a swap there and back."""

import argparse
from collections.abc import Callable
import time
from typing import Any

from tools.openstack import migrate, tempest
from tools.openstack.api import ERRORS, Api
from tools.openstack.layout import Layout
from tools.openstack.programs import show_audits
from tools.openstack.services import Schedulers, Services

MEMBERS = 3


def main(layout: Layout, options: argparse.Namespace) -> int:
    """Do everything once; return 1 if something is not as promised."""
    Schedulers(layout).replace("berth")
    api = Api(layout)
    failed = [name for name, step in STEPS.items() if not did(name, step, api, layout)]
    begun = time.monotonic()
    if tempest.main(layout, options):
        failed.append("tempest")
    print(f"{time.monotonic() - begun:5.0f} s  tempest", flush=True)
    if migrate.main(layout, options):
        failed.append("migrate")
    print(f"not as promised: {', '.join(failed)}" if failed else "everything is as promised", flush=True)
    return 1 if failed or not show_audits(layout) else 0


def did(name: str, step: Callable[[Api, Layout], bool], api: Api, layout: Layout) -> bool:
    """Do a step, say how it went, and return whether it is right."""
    begun, why = time.monotonic(), ""
    try:
        right = step(api, layout)
    except ERRORS as error:
        right, why = False, f": {error}"
    took = f"{time.monotonic() - begun:5.0f} s"
    print(f"{took}  {name} {'is right' if right else 'is wrong'}{why}", flush=True)
    return right


def _booted(api: Api, name: str, **more: Any) -> str:
    server = api.boot(name, **more)
    api.wait(server, "ACTIVE")
    return server


def boot(api: Api, layout: Layout) -> bool:
    """A server on a network in a zone."""
    network = api.cloud.network.find_network("inside", ignore_missing=False)
    server = _booted(api, "short-boot", availability_zone="az2", networks=[{"uuid": network.id}])
    host = api.host_of(server)
    api.delete(server)
    return layout.zone_of(host) == "az2"


def group(api: Api, _: Layout) -> bool:
    """Members of a group that keep apart."""
    made = api.compute.create_server_group(name="short", policy="anti-affinity")
    names = [f"short-group-{number}" for number in range(MEMBERS)]
    servers = [api.boot(name, scheduler_hints={"group": made.id}) for name in names]
    hosts = {api.wait(server, "ACTIVE").compute_host for server in servers}
    api.delete(*servers)
    api.compute.delete_server_group(made)
    return len(hosts) == MEMBERS


def resize(api: Api, _: Layout) -> bool:
    """A server with a larger flavor."""
    server = _booted(api, "short-resize")
    found = api.resize(server)
    api.delete(server)
    return found.flavor.original_name == "large"


def live_migrate(api: Api, layout: Layout) -> bool:
    """A server that goes to another host of its cell while it runs."""
    server = _booted(api, "short-migrate")
    before = api.host_of(server)
    after = api.live_migrate(server).compute_host
    api.delete(server)
    return layout.hosts[after] == layout.hosts[before]


def evacuate(api: Api, layout: Layout) -> bool:
    """A server whose compute is dead."""
    server = _booted(api, "short-evacuate")
    with Services(layout).dead(api.host_of(server), api):
        found = api.evacuate(server)
    api.delete(server)
    return found.status == "ACTIVE"


STEPS = {
    "boot in a zone": boot,
    "group": group,
    "resize": resize,
    "migrate": live_migrate,
    "evacuate": evacuate,
}
