"""Allocations, as conductors and computes write, move and remove them (spec: host-state-and-cells 7)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
import json

from oslo_config import cfg
from oslo_log import log as logging

from scheduler import objects
from scheduler.errors import AllocationUpdateFailed
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.allocations import Owner
from scheduler.placement.answer import Resources
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Write, Written

LOG = logging.getLogger(__name__)

# Seconds for all tries of a write.
TIMEOUT = 60.0

# Tries of a removal while other writers change what is removed.
TRIES = 4


class Allocations:
    """Claims, moves and removals of allocations."""

    def __init__(self, writer: AllocationWriter) -> None:
        self._writer = writer

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> "Allocations":
        """Write to the Placement that ``[placement]`` describes."""
        return cls(AllocationWriter(PlacementClient.from_conf(conf)))

    def claim(self, instance_uuid: str, selection: objects.Selection, spec: objects.RequestSpec) -> bool:
        """Claim the allocation of a Selection, besides what the instance holds.

        Returns:
            Whether the instance has it now; a Selection without an allocation needs no claim.

        Raises:
            AllocationUpdateFailed: The allocations of the instance changed during the claim.
        """
        wanted = json.loads(selection.allocation_request or "null")
        if not wanted:
            return True
        try:
            held = self._writer.reader.read(instance_uuid)
        except PlacementSilent as error:
            LOG.warning("Claim for instance %s failed: %s", instance_uuid, error)
            return False
        rows = {**wanted["allocations"], **held.allocations}
        mappings = {} if held.allocations else wanted.get("mappings", {})
        owner = Owner(spec.project_id, spec.user_id)
        written = self._write({instance_uuid: Write(rows, owner, held.generation, mappings)})
        if written.outcome is Outcome.CHANGED:
            raise AllocationUpdateFailed(instance_uuid, written.reason)
        done = written.outcome is Outcome.DONE
        if not done:
            host = selection.service_host
            LOG.warning("Claim for instance %s on host %s refused: %s", instance_uuid, host, written.reason)
        return done

    def remove(self, instance_uuid: str) -> bool:
        """Remove all allocations of an instance, whatever its consumer generation.

        Returns:
            Whether none is left.
        """
        return self._keep("Removal", instance_uuid, lambda _held: {})

    def drop(self, consumer: str, provider: str) -> bool:
        """Remove what a consumer holds on a provider; it keeps the rest. Return whether that was done."""
        return self._keep(
            "Partial removal",
            consumer,
            lambda held: {uuid: one for uuid, one in held.items() if uuid != provider},
        )

    def move(self, source: str, target: str) -> bool:
        """Hand what a consumer holds over to another one, in place of what that holds, in one request.

        Returns:
            Whether the other one holds it now.
        """
        try:
            held, replaced = self._writer.reader.read(source), self._writer.reader.read(target)
        except PlacementSilent as error:
            return _report("Move", source, str(error))
        if not held.allocations:
            return _report("Move", source, "it holds nothing")
        written = self._write(
            {
                target: Write(held.allocations, held.owner, replaced.generation),
                source: Write({}, held.owner, held.generation),
            }
        )
        return written.outcome is Outcome.DONE or _report("Move", source, written.reason)

    def held(self, instance_uuid: str) -> Resources:
        """Return the allocations of an instance.

        Raises:
            PlacementSilent: Placement gives no usable answer.
        """
        return self._writer.reader.read(instance_uuid).allocations

    def _keep(self, what: str, consumer: str, kept: Callable[[Resources], Resources]) -> bool:
        """Let a consumer keep a part of what it holds, also if another writer changes that meanwhile."""
        for _ in range(TRIES):
            try:
                held = self._writer.reader.read(consumer)
            except PlacementSilent as error:
                return _report(what, consumer, str(error))
            rows = kept(held.allocations)
            if rows == held.allocations:
                return True
            written = self._write({consumer: Write(rows, held.owner, held.generation)})
            if written.outcome is not Outcome.CHANGED:
                break
        return written.outcome is Outcome.DONE or _report(what, consumer, written.reason)

    def _write(self, writes: Mapping[str, Write]) -> Written:
        until = self._writer.timing.monotonic() + TIMEOUT
        return next(iter(self._writer.write(writes, all_or_none=True, until=until).values()))


@contextmanager
def held_by_migration(allocations: Allocations, instance_uuid: str, migration_uuid: str) -> Iterator[None]:
    """Let a migration hold what its instance holds, which gets it back after an error.

    Raises:
        AllocationUpdateFailed: The migration cannot have it.
    """
    if not allocations.move(instance_uuid, migration_uuid):
        raise AllocationUpdateFailed(migration_uuid, "it cannot hold the source allocation")
    try:
        yield
    except Exception:
        allocations.move(migration_uuid, instance_uuid)
        raise


def _report(what: str, consumer: str, reason: str) -> bool:
    """Log why something was not done, and return that it was not."""
    LOG.error("%s of the allocations of consumer %s failed: %s", what, consumer, reason)
    return False
