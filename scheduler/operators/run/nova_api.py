"""What a run asks: nova's API by openstacksdk, and Placement by the scheduler's own client."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg

from scheduler.decisions.document import seconds_of
from scheduler.errors import BerthError
from scheduler.logs import brief
from scheduler.operators.plan.movable import COLD, EVACUATE
from scheduler.placement.allocations import AllocationReader
from scheduler.placement.client import PlacementClient
from scheduler.placement.providers import ABSENT, read_provider

#: The first version with a target host for cold migrations. From 2.95 on nova would stop evacuated instances.
MICROVERSION = "2.56"

#: Seconds that one request may take.
TIMEOUT = 60.0

#: What to install for the extra.
EXTRA = "berth-scheduler[run]"

#: Requests that nova records of an instance when it is moved or resized.
ACTIONS = frozenset({"live-migration", "migrate", "evacuate", "resize", "confirmResize", "revertResize"})

#: Why a step failed without a traceback.
NO_REASON = "nova records no reason"


class NotInstalled(BerthError):
    """The library of the API is not installed."""


class ApiError(BerthError):
    """A request to nova's API failed."""


class Refused(ApiError):
    """Nova refused the request: nothing was done."""


class NotAllowed(ApiError):
    """The credentials do not work, or lack the rights."""


class Unanswered(ApiError):
    """There is no usable answer: the request may have been carried out, or may yet be."""


@dataclass(frozen=True)
class Action:
    """The latest request to move or resize an instance that nova recorded.

    Attributes:
        name: One of ``ACTIONS``.
        started_at: In seconds since the epoch, by nova's clock.
        error: Why it failed; "" if it did not, or goes on.
        goes_on: Whether a part of it has not ended.
    """

    name: str
    started_at: float
    error: str = ""
    goes_on: bool = False


class NovaApi:
    """Nova by a connection of openstacksdk. Each call raises Refused, NotAllowed or Unanswered."""

    def __init__(self, connection: Any) -> None:
        self._compute = connection.compute
        self._compute.default_microversion = MICROVERSION

    def service(self, host: str) -> Any:
        """Return the nova-compute of a host as openstacksdk has it; None if there is none."""
        with _translated():
            found = self._compute.services(host=host, binary="nova-compute")
            return next((one for one in found if one.host == host), None)

    def disable(self, service: Any, reason: str) -> None:
        with _translated():
            self._compute.update_service(service.id, status="disabled", disabled_reason=reason)

    def enable(self, service: Any) -> None:
        with _translated():
            self._compute.update_service(service.id, status="enabled")

    def server(self, uuid: str) -> Any:
        """Return an instance as openstacksdk has it; None if it has been deleted."""
        from openstack.exceptions import NotFoundException

        with _translated():
            try:
                return self._compute.get_server(uuid)
            except NotFoundException:
                return None

    def move(self, uuid: str, way: str, target: str) -> None:
        with _translated():
            if way == EVACUATE:
                self._compute.evacuate_server(uuid, host=target)
            elif way == COLD:
                self._compute.migrate_server(uuid, host=target)
            else:
                self._compute.live_migrate_server(uuid, host=target, block_migration="auto")

    def confirm(self, uuid: str) -> None:
        with _translated():
            self._compute.confirm_server_resize(uuid)

    def reset_state(self, uuid: str) -> None:
        with _translated():
            self._compute.reset_server_state(uuid, "error")

    def latest_action(self, uuid: str) -> Action | None:
        """Return the latest request to move or resize an instance; None if there is none."""
        with _translated():
            found = [one for one in self._compute.server_actions(uuid) if one.action in ACTIONS]
            if not found:
                return None
            latest = max(found, key=lambda one: one.start_time)
            events = self._compute.get_server_action(latest.request_id, uuid).events or []
        failed = [one for one in events if one.result == "Error"]
        lines = (failed[0].traceback or "").split("\n") if failed else [latest.message or ""]
        lines = [line.strip() for line in lines if line.strip()] or [NO_REASON if failed else ""]
        goes_on = any(one.result is None for one in events)
        return Action(latest.action, seconds_of(latest.start_time), lines[-1], goes_on)


def connect(cloud: str | None) -> NovaApi:
    """Connect as an entry of clouds.yaml says; None: that of ``OS_CLOUD``, or the variables ``OS_*``."""
    try:
        import openstack
    except ImportError as error:
        raise NotInstalled(
            f"--run needs openstacksdk, which is not installed: pip install '{EXTRA}'"
        ) from error
    with _translated():
        try:
            connection = openstack.connect(cloud=cloud, api_timeout=TIMEOUT, app_name="berth-plan")
        except (openstack.exceptions.ConfigException, ValueError) as error:
            raise NotAllowed(
                f"No cloud is named by --os-cloud, OS_CLOUD or OS_AUTH_URL: {brief(error)}"
            ) from error
        return NovaApi(connection)


@contextmanager
def _translated() -> Iterator[None]:
    """Raise errors of the library as those of this module."""
    from keystoneauth1 import exceptions as of_session
    from openstack import exceptions as of_sdk

    try:
        yield
    except (of_session.MissingRequiredOptions, of_session.AuthorizationFailure) as error:
        raise NotAllowed(f"The credentials do not work: {brief(error)}") from error
    except (of_sdk.HttpException, of_session.HttpError) as error:
        status = getattr(error, "status_code", None) or getattr(error, "http_status", 0) or 0
        text = f"{status} {getattr(error, 'details', None) or brief(error)}"
        if status in {401, 403}:
            raise NotAllowed(text) from error
        if status in {413, 429} or not 400 <= status < 500:
            raise Unanswered(text) from error
        raise Refused(text) from error
    except (of_sdk.SDKException, of_session.ClientException) as error:
        raise Unanswered(brief(error)) from error


class PlacementView:
    """Placement by a client. Each call raises PlacementError."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._client = PlacementClient.from_conf(conf)
        self._allocations = AllocationReader(self._client)

    def providers_of(self, instance: str) -> set[str]:
        """Return the providers that have allocations of an instance."""
        return set(self._allocations.read(instance).allocations)

    def consumers_of(self, nodes: Iterable[str]) -> set[str]:
        """Return the consumers that hold something of some providers."""
        states = (read_provider(self._client, node, "allocations") for node in nodes)
        return {consumer for state in states for consumer in (state or ABSENT).allocations}
