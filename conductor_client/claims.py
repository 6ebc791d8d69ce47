"""Allocations, as conductors and computes write, move and remove them (spec: host-state-and-cells 7)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import json
import random
import time

from keystoneauth1 import adapter, loading
from keystoneauth1 import exceptions as keystone
from oslo_config import cfg
from oslo_log import log as logging

from conductor_client import errors
from scheduler import objects

LOG = logging.getLogger(__name__)

READ_VERSION = "1.28"

# Upper bounds, in seconds, of the random pause before each try of a claim that met a concurrent update.
PAUSES = (0, 2, 4, 6)

# Seconds that a response may take if [placement]/timeout is not set.
TIMEOUT = 60


def placement_adapter(conf: cfg.ConfigOpts) -> adapter.Adapter:
    """Return a keystoneauth adapter for ``[placement]``, which raises nothing on an error status."""
    auth = loading.load_auth_from_conf_options(conf, "placement")
    timeout = conf.placement.timeout or TIMEOUT
    session = loading.load_session_from_conf_options(conf, "placement", auth=auth, timeout=timeout)
    return loading.load_adapter_from_conf_options(conf, "placement", session=session, raise_exc=False)


class Allocations:
    """Claims, moves and removals of allocations."""

    def __init__(
        self,
        placement: adapter.Adapter,
        sleep: Callable[[float], None] = time.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """Write to Placement.

        Args:
            placement: A keystoneauth adapter that does not raise on an error status.
        """
        self._uniform = uniform
        self._placement = placement
        self._sleep = sleep

    def claim(self, instance_uuid: str, selection: objects.Selection, spec: objects.RequestSpec) -> bool:
        """Claim the allocation of a Selection, with its own microversion.

        Returns:
            Whether the instance has it now; a Selection without an allocation needs no claim.

        Raises:
            AllocationUpdateFailed: The allocations of the instance changed during the claim.
        """
        wanted = json.loads(selection.allocation_request or "null")
        if not wanted:
            return True
        version = selection.allocation_request_version
        answer = self._repeated(instance_uuid, lambda: self._put(instance_uuid, wanted, version, spec))
        if answer.status_code == 204:
            return True
        LOG.warning(
            "Claim for instance %s on host %s refused: %s",
            instance_uuid,
            selection.service_host,
            _detail(answer),
        )
        return False

    def remove(self, instance_uuid: str) -> bool:
        """Remove all allocations of an instance, whatever its consumer generation.

        Returns:
            Whether none is left.
        """
        return self._write("Removal", instance_uuid, lambda: self._placement.delete(_path(instance_uuid)))

    def move(self, source: str, target: str) -> bool:
        """Hand what a consumer holds over to another one, in place of what that holds, in one request.

        Returns:
            Whether the other one holds it now.
        """

        def send():
            held, replaced = self.held(source), self.held(target)
            if not held["allocations"]:
                raise errors.AllocationUpdateFailed("it holds nothing")
            body = {
                target: _consumer(held, held["allocations"], replaced.get("consumer_generation")),
                source: _consumer(held, {}, held["consumer_generation"]),
            }
            return self._placement.post("/allocations", json=body, microversion=READ_VERSION)

        return self._write("Move", source, send)

    def drop(self, consumer: str, provider: str) -> bool:
        """Remove what a consumer holds on a provider; it keeps the rest. Return whether that was done."""

        def send():
            held = self.held(consumer)
            kept = {uuid: value for uuid, value in held["allocations"].items() if uuid != provider}
            body = _consumer(held, kept, held["consumer_generation"])
            return self._placement.put(_path(consumer), json=body, microversion=READ_VERSION)

        return self._write("Partial removal", consumer, send)

    def held(self, instance_uuid: str) -> dict:
        """Return the allocations of an instance: the body of GET /allocations/{instance_uuid}."""
        return self._placement.get(_path(instance_uuid), microversion=READ_VERSION).json()

    def _repeated(self, consumer, send):
        """Return the response to a write, which is repeated while it loses races for a provider."""
        for pause in PAUSES:
            self._sleep(self._uniform(0, pause))
            answer = send()
            if not _lost_a_race(answer, consumer):
                break
        return answer

    def _write(self, what, consumer, send):
        try:
            answer = self._repeated(consumer, send)
            # 404 is for a removal: nothing is left
            reason = (
                "" if answer.status_code in (204, 404) else _detail(answer) or f"HTTP {answer.status_code}"
            )
        except (keystone.ClientException, errors.AllocationUpdateFailed) as error:
            reason = str(error)
        if reason:
            LOG.error("%s of the allocations of consumer %s failed: %s", what, consumer, reason)
        return not reason

    def _put(self, instance_uuid, wanted, version, spec):
        held = self.held(instance_uuid)
        body = {**wanted, "project_id": spec.project_id, "user_id": spec.user_id, "consumer_generation": None}
        if held["allocations"]:
            body = _merged(body, held)
        return self._placement.put(_path(instance_uuid), json=body, microversion=version)


@contextmanager
def held_by_migration(allocations: Allocations, instance_uuid: str, migration_uuid: str) -> Iterator[None]:
    """Let a migration hold what its instance holds, which gets it back after an error.

    Raises:
        AllocationUpdateFailed: The migration cannot have it.
    """
    if not allocations.move(instance_uuid, migration_uuid):
        raise errors.AllocationUpdateFailed(f"Migration {migration_uuid} cannot hold the source allocation")
    try:
        yield
    except Exception:
        allocations.move(migration_uuid, instance_uuid)
        raise


def _path(instance_uuid):
    return f"/allocations/{instance_uuid}"


def _consumer(owner, allocations, generation):
    """Return a consumer as it is written, with the project and user of another one."""
    return {
        "allocations": _resources(allocations),
        "project_id": owner["project_id"],
        "user_id": owner["user_id"],
        "consumer_generation": generation,
    }


def _resources(allocations):
    return {provider: {"resources": value["resources"]} for provider, value in allocations.items()}


def _merged(body, held):
    """Add the wanted allocations on other providers to those that are held."""
    kept = _resources(held["allocations"])
    body = {key: value for key, value in body.items() if key != "mappings"}
    return {
        **body,
        "allocations": {**body["allocations"], **kept},
        "consumer_generation": held["consumer_generation"],
    }


def _lost_a_race(answer, instance_uuid):
    """Return whether the response is a conflict on a provider, after which the same claim can succeed."""
    if answer.status_code != 409 or "placement.concurrent_update" not in answer.text:
        return False
    if "consumer generation conflict" in answer.text:
        raise errors.AllocationUpdateFailed(f"Instance {instance_uuid}: {_detail(answer)}")
    return True


def _detail(answer):
    try:
        return answer.json()["errors"][0]["detail"]
    except (ValueError, LookupError, TypeError):
        return answer.text[:200]
