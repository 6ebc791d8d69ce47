"""The API of the cloud as its administrator has it, by openstacksdk: operations to their ends."""

from collections.abc import Callable, Collection
import contextlib
import functools
import time
from typing import Any

from keystoneauth1.exceptions import ClientException

import openstack
from openstack.compute.v2.server import Server
from openstack.connection import Connection
from openstack.exceptions import BadRequestException, ResourceFailure, ResourceTimeout, SDKException
from tools.openstack.layout import Layout
from tools.rig.service import until

#: Up to this one an evacuated server is started on its new host.
MICROVERSION = "2.94"
#: Nothing but the arguments counts, and a request that fails is seen by its user: none is repeated.
OPTIONS: dict[str, Any] = {
    "load_yaml_config": False,
    "load_envvars": False,
    "compute_default_microversion": MICROVERSION,
    "api_timeout": 90,
    "image_status_code_retries": 0,
}
PATIENCE = 300  # seconds until a server has a state
#: A request is refused or has no answer, or a server does not get the state that is waited for.
ERRORS = (SDKException, ClientException)
#: States in which nova evacuates a server.
EVACUATED = ("ACTIVE", "SHUTOFF")


def connect(layout: Layout) -> Connection:
    """Return a connection of the administrator; its first request reads the catalog."""
    return openstack.connect(auth=layout.administrator, region_name="RegionOne", **OPTIONS)


class Api:
    """Operations on servers, each to its end; threads can share it."""

    def __init__(self, layout: Layout) -> None:
        """Describe the session; the first request gets a token."""
        self.cloud = connect(layout)
        self.compute = self.cloud.compute

    @functools.cached_property
    def image(self) -> str:
        """The UUID of the image."""
        return self.cloud.image.find_image("guest", ignore_missing=False).id

    @functools.cached_property
    def flavors(self) -> dict[str, str]:
        """The IDs of the flavors by name."""
        return {each.name: each.id for each in self.compute.flavors()}

    # -- servers

    def boot(self, name: str, flavor: str = "small", **more: Any) -> str:
        """Ask for a server, and return its UUID."""
        values = {"image_id": self.image, "flavor_id": self.flavors[flavor], "networks": "none", **more}
        return self.compute.create_server(name=name, **values).id

    def on(self, host: str) -> list[str]:
        """Return the UUIDs of the servers of a compute."""
        return [each.id for each in self.servers(compute_host=host)]

    def servers(self, **filters: str) -> list[Server]:
        """Return all servers of all projects that have such attributes."""
        return list(self.compute.servers(all_projects=True, **filters))

    def host_of(self, server: str) -> str:
        """Return the compute of a server."""
        return self.compute.get_server(server).compute_host

    def wait(self, server: str, *states: str, off: str = "", patience: float = PATIENCE) -> Server:
        """Wait until a server has one of these states and no task, and return it.

        Args:
            server: Its UUID.
            states: States of the API.
            off: A host that it has to have left: an evacuated server gets its new host last.
            patience: Seconds.

        Raises:
            ResourceFailure: It gets the state ERROR.
            ResourceTimeout: The time is over.
        """
        deadline = time.monotonic() + patience
        while True:
            found = self.compute.get_server(server)
            if found.status in states and not found.task_state and not (off and found.compute_host == off):
                return found
            failed = found.status == "ERROR"
            if failed or time.monotonic() > deadline:
                state = f"server {server} on {found.compute_host} is {found.status} (task {found.task_state})"
                fault = (found.fault or {}).get("message", "none")
                text = f"{state}, not {' or '.join(states)}; fault: {fault}; {self._last_action(server)}"
                raise ResourceFailure(text) if failed else ResourceTimeout(text)
            time.sleep(0.5)

    def _last_action(self, server: str) -> str:
        """Return what nova keeps of the last action of a server."""
        try:
            latest = next(iter(self.compute.server_actions(server)))
            action = self.compute.get_server_action(latest.request_id, server)
        except (*ERRORS, StopIteration) as error:
            return f"no action is known: {error}"
        events = [
            f"{each.event} on {each.host}: {each.result or 'not ended'} {(each.traceback or '')[-300:]}"
            for each in action.events or ()
        ]
        said = f"last action: {action.action} ({action.request_id}), {action.message or 'no error'}"
        return "; ".join([said, *events])

    def resize(self, server: str) -> Server:
        """Give a server the large flavor."""
        return self._moved(server, lambda: self.compute.resize_server(server, self.flavors["large"]))

    def migrate(self, server: str, host: str | None = None) -> Server:
        """Migrate a server, by default to the host that the scheduler chooses."""
        return self._moved(server, lambda: self.compute.migrate_server(server, host=host))

    def _moved(self, server: str, act: Callable[[], None]) -> Server:
        before = self.compute.get_server(server).status
        act()
        self.wait(server, "VERIFY_RESIZE")
        self.compute.confirm_server_resize(server)
        return self.wait(server, before)

    def live_migrate(self, server: str, host: str | None = None) -> Server:
        """Live-migrate a server, by default to the host that the scheduler chooses.

        Raises:
            ResourceFailure: It is still on its host.
        """
        before = self.compute.get_server(server)
        self.compute.live_migrate_server(server, host=host, block_migration="auto")
        found = self.wait(server, before.status)
        if found.compute_host == before.compute_host:
            text = f"server {server} did not leave {found.compute_host}; {self._last_action(server)}"
            raise ResourceFailure(text)
        return found

    def shelve(self, server: str) -> Server:
        """Shelve a server, which then has no host, and give it one again."""
        self.compute.shelve_server(server)
        self.wait(server, "SHELVED_OFFLOADED")
        self.compute.unshelve_server(server)
        return self.wait(server, "ACTIVE")

    def rebuild(self, server: str) -> Server:
        """Build a server anew on its host."""
        self.compute.rebuild_server(server, self.image)
        return self.wait(server, "ACTIVE")

    def evacuate(self, server: str) -> Server:
        """Let a server of a dead host have another one."""
        dead = self.host_of(server)
        self.compute.evacuate_server(server)
        return self.wait(server, *EVACUATED, off=dead)

    def delete(self, *servers: str) -> None:
        """Delete servers, and wait until they are gone; raises ResourceTimeout."""
        for server in servers:
            self.compute.delete_server(server)
        for server in servers:
            self.compute.wait_for_delete(Server.new(id=server), interval=0.5, wait=PATIENCE)

    def delete_named(self, prefix: str) -> None:
        """Delete the servers whose names begin so, as ``delete``."""
        self.delete(*(each.id for each in self.servers(name=prefix)))

    # -- what holds them

    def consumers(self) -> set[str]:
        """Return who has allocations in Placement."""
        placement = self.cloud.placement
        paths = (f"/resource_providers/{each.id}/allocations" for each in placement.resource_providers())
        return {each for path in paths for each in placement.get(path).json()["allocations"]}

    def drop_allocations(self, consumers: Collection[str]) -> None:
        """Delete the allocations of consumers in Placement."""
        for each in consumers:
            self.cloud.placement.delete(f"/allocations/{each}")

    def service(self, host: str) -> Any:
        """Return nova's service of a compute."""
        (service,) = self.compute.services(host=host, binary="nova-compute")
        return service

    def disable(self, host: str, *, disabled: bool = True) -> None:
        """Let a compute take no new servers, or take them again."""
        self.compute.update_service(self.service(host), status="disabled" if disabled else "enabled")

    def force_down(self, host: str) -> None:
        """Declare that a compute is dead, as a fencing agent does."""
        self.compute.update_service(self.service(host), is_forced_down=True)

    def force_up(self, host: str) -> None:
        """Declare that a compute is back, once it has removed what was evacuated; raises RuntimeError."""

        def accepted() -> bool:
            with contextlib.suppress(BadRequestException):
                self.compute.update_service(self.service(host), is_forced_down=False)
                return True
            return False

        until(accepted, f"{host} cannot be forced up", PATIENCE)
