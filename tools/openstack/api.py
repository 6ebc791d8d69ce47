"""The API of the cloud as its administrator and its users have it."""

from collections.abc import Collection, Iterator
import contextlib
import time
from typing import Any

from keystoneauth1 import exceptions, session
from keystoneauth1.identity import v3

from tools.openstack.layout import Layout

#: Up to this one an evacuated server is started on its new host.
MICROVERSION = "2.94"
REQUEST_TIMEOUT = 90
PATIENCE = 300  # seconds until a server has a state
Json = dict[str, Any]


class ApiError(RuntimeError):
    """An API refuses a request, or does not answer.

    Attributes:
        status: The HTTP status; 0: there is no answer.
    """

    def __init__(self, request: str, status: int, text: str) -> None:
        self.status = status
        super().__init__(f"{request}: {status or 'no answer'} {text[:500]}")


class NotReachedError(RuntimeError):
    """A server does not get the state that is waited for."""


class Api:
    """A session with Keystone, used by one user of one project; threads can share it."""

    def __init__(self, layout: Layout, user: str = "admin", project: str = "admin") -> None:
        """Describe the session; the first request gets a token."""
        self._layout = layout
        self._image = ""
        self._flavors: dict[str, str] = {}
        auth = v3.Password(
            auth_url=layout.url("identity"),
            username=user,
            password=layout.password,
            project_name=project,
            user_domain_name="Default",
            project_domain_name="Default",
        )
        self._session = session.Session(auth, timeout=REQUEST_TIMEOUT)

    def __call__(self, kind: str, method: str, path: str, body: Json | None = None, **more: Any) -> Any:
        """Send a request to an API, and return the JSON of the answer (None: it has none).

        Raises:
            ApiError: It is refused, or there is no answer.
        """
        if kind == "compute":
            more.setdefault("microversion", MICROVERSION)
            more["microversion_service_type"] = "compute"
        url = self._layout.url(kind)
        try:
            answer = self._session.request(
                url + path, method, json=body, raise_exc=False, endpoint_override=url, **more
            )
        except exceptions.ClientException as error:  # of the session itself, such as for a new token
            raise ApiError(f"{method} {path}", 0, str(error)) from None
        if answer.status_code >= 400:
            raise ApiError(f"{method} {path}", answer.status_code, answer.text)
        return answer.json() if "json" in answer.headers.get("Content-Type", "") and answer.content else None

    def compute(self, method: str, path: str, body: Json | None = None, **more: Any) -> Any:
        """Send a request to nova."""
        return self("compute", method, path, body, **more)

    # -- servers

    def boot(self, name: str, flavor: str = "small", *, hints: Json | None = None, **more: Any) -> str:
        """Ask for a server, and return its UUID."""
        server = {
            "name": name,
            "imageRef": self.image(),
            "flavorRef": self.flavors()[flavor],
            "networks": "none",
            **more,
        }
        body: Json = {"server": server}
        if hints:
            body["os:scheduler_hints"] = hints
        return self.compute("POST", "/servers", body)["server"]["id"]

    def act(self, server: str, action: str, arguments: Json | None = None, **more: Any) -> Any:
        """Let nova do something with a server."""
        return self.compute("POST", f"/servers/{server}/action", {action: arguments}, **more)

    def server(self, server: str) -> Json:
        """Return a server as the administrator sees it."""
        return self.compute("GET", f"/servers/{server}")["server"]

    def servers(self, **filters: str) -> list[Json]:
        """Return all servers of all projects that have such attributes."""
        return self.compute("GET", "/servers/detail", params={"all_tenants": "1", **filters})["servers"]

    def on(self, host: str) -> list[str]:
        """Return the UUIDs of the servers of a compute."""
        return [each["id"] for each in self.servers(host=host)]

    def host_of(self, server: str) -> str:
        """Return the compute of a server."""
        return self.server(server)["OS-EXT-SRV-ATTR:host"]

    def wait(self, server: str, *states: str, off: str = "", patience: float = PATIENCE) -> Json:
        """Wait until a server has one of these states and no task, and return it.

        Args:
            server: Its UUID.
            states: States of the API.
            off: A host that it has to have left: an evacuated server gets its new host last.
            patience: Seconds.

        Raises:
            NotReachedError: It gets the state ERROR, or the time is over.
        """
        deadline = time.monotonic() + patience
        while True:
            found = self.server(server)
            state = found["status"]
            left = not off or found["OS-EXT-SRV-ATTR:host"] != off
            if state in states and not found["OS-EXT-STS:task_state"] and left:
                return found
            if state == "ERROR" or time.monotonic() > deadline:
                fault = found.get("fault", {}).get("message", "")
                raise NotReachedError(f"server {server} is {state}, not {' or '.join(states)}: {fault}")
            time.sleep(0.5)

    def delete(self, *servers: str, patience: float = PATIENCE) -> None:
        """Delete servers, and wait until they are gone; raises NotReachedError."""
        for server in servers:
            with _missing_is_fine():
                self.compute("DELETE", f"/servers/{server}")
        deadline = time.monotonic() + patience
        for server in servers:
            with _missing_is_fine():
                while self.server(server)["status"] != "DELETED":
                    if time.monotonic() > deadline:
                        raise NotReachedError(f"server {server} is not deleted")
                    time.sleep(0.5)

    def delete_named(self, prefix: str) -> None:
        """Delete the servers whose names begin so, as ``delete``."""
        self.delete(*(each["id"] for each in self.servers(name=prefix)))

    def make_group(self, name: str, policy: str) -> str:
        """Make a server group, and return its UUID."""
        body = {"server_group": {"name": name, "policy": policy}}
        return self.compute("POST", "/os-server-groups", body)["server_group"]["id"]

    def delete_group(self, group: str) -> None:
        """Delete a server group."""
        self.compute("DELETE", f"/os-server-groups/{group}")

    # -- what the cloud has

    def image(self) -> str:
        """Return the UUID of the image, which is asked for once."""
        if not self._image:
            self._image = self("image", "GET", "/v2/images?name=guest")["images"][0]["id"]
        return self._image

    def network(self) -> list[Json]:
        """Return the networks of a server on the network inside."""
        return [{"uuid": self("network", "GET", "/v2.0/networks?name=inside")["networks"][0]["id"]}]

    def flavors(self) -> dict[str, str]:
        """Return the IDs of the flavors by name, which are asked for until there are any."""
        if not self._flavors:
            found = self.compute("GET", "/flavors")["flavors"]
            self._flavors = {each["name"]: each["id"] for each in found}
        return self._flavors

    def consumers(self) -> set[str]:
        """Return who has allocations in Placement."""
        providers = self("placement", "GET", "/resource_providers")["resource_providers"]
        paths = (f"/resource_providers/{each['uuid']}/allocations" for each in providers)
        return {each for path in paths for each in self("placement", "GET", path)["allocations"]}

    def drop_allocations(self, consumers: Collection[str]) -> None:
        """Delete the allocations of consumers in Placement."""
        for each in consumers:
            with _missing_is_fine():
                self("placement", "DELETE", f"/allocations/{each}")

    def services(self, binary: str = "nova-compute") -> list[Json]:
        """Return nova's services."""
        return self.compute("GET", f"/os-services?binary={binary}")["services"]

    def disable(self, host: str, *, disabled: bool = True) -> None:
        """Let a compute take no new servers, or take them again."""
        self._change_service(host, {"status": "disabled" if disabled else "enabled"})

    def force_down(self, host: str) -> None:
        """Declare that a compute is dead, as a fencing agent does."""
        self._change_service(host, {"forced_down": True})

    def force_up(self, host: str, patience: float = PATIENCE) -> None:
        """Declare that a compute is back, once it has removed what was evacuated; raises ApiError."""
        deadline = time.monotonic() + patience
        while True:
            try:
                return self._change_service(host, {"forced_down": False})
            except ApiError as error:
                if error.status != 400 or time.monotonic() > deadline:
                    raise
            time.sleep(1)

    def _change_service(self, host: str, change: Json) -> None:
        (service,) = [each for each in self.services() if each["host"] == host]
        self.compute("PUT", f"/os-services/{service['id']}", change)


@contextlib.contextmanager
def _missing_is_fine() -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if error.status != 404:
            raise


def names(found: Collection[Json]) -> list[str]:
    """Return the names of what an API returned, in order."""
    return sorted(each["name"] for each in found)
