"""The model of Placement behind a ``PlacementClient``: consumers of units of providers, and faults on demand."""

from collections.abc import MutableMapping

import orjson

from scheduler.placement.allocations import NOTHING, ConsumerAllocations, Owner
from scheduler.placement.errors import PlacementUnanswered, PlacementUnreachable
from scheduler.placement.reply import Reply
from tools.simulation import placement as model

CONFLICT = "consumer generation conflict - expected null but got 7"
REFUSED = "Unable to create allocation for 'VCPU' on resource provider 'f0'."
#: What a client meets in place of the answer to a write that is carried out, and to one that is not.
AFTER = {
    "unanswered": lambda: PlacementUnanswered("lost"),
    "timeout": lambda: PlacementUnanswered("late", timed_out=True),
    "500 after": lambda: model.refusal(500, "deadlock"),
}
BEFORE = {
    "lost": lambda: PlacementUnanswered("lost"),
    "unreachable": lambda: PlacementUnreachable("no"),
    "500": lambda: model.refusal(500, "deadlock"),
    "html": lambda: Reply(502, b"<html>Bad Gateway</html>"),
    "403": lambda: model.refusal(403, "not for you"),
    "concurrent": lambda: model.concurrent("Another thread concurrently updated the data"),
    "refused": lambda: model.refusal(409, REFUSED),
    "conflict": lambda: model.concurrent(CONFLICT),
}


class Held(MutableMapping):
    """Consumer uuid → what it holds, shown or not."""

    def __init__(self, placement):
        self.placement = placement
        self.hidden = {}

    def __getitem__(self, uuid):
        record = self.placement.consumers.get(uuid) or self.hidden.get(uuid)
        rows = self.placement.held(uuid)
        if record is None and not rows:
            raise KeyError(uuid)
        allocations = {provider: {"resources": amounts} for provider, amounts in rows.items()}
        return ConsumerAllocations(
            allocations, record and record.generation, record and Owner(record.project_id, record.user_id)
        )

    def __setitem__(self, uuid, held):
        rows = {provider: dict(entry["resources"]) for provider, entry in held.allocations.items()}
        owner = held.owner.project_id, held.owner.user_id
        self.placement.rows[uuid] = rows
        self.placement.consumers[uuid] = model.Consumer(held.generation, *owner, created_by=0)

    def __delitem__(self, uuid):
        self.placement.rows.pop(uuid, None)
        self.placement.consumers.pop(uuid, None)

    def __iter__(self):
        return iter(self.placement.rows | self.placement.consumers)

    def __len__(self):
        return len(self.placement.rows | self.placement.consumers)


class FakeConsumers:
    """A client of providers that have so many units of each class.

    Faults of writes, one each: ``ok``, those of ``AFTER`` and ``BEFORE``, ``late N`` (carried out N calls later),
    ``begun N`` (the record of the consumer is made at once, the rest is done N calls later).
    Faults of reads: ``ok``, ``silent``.
    """

    def __init__(self, capacity, held=(), write_faults=(), read_faults=()):
        self.placement = model.Placement([])
        self.consumers = Held(self.placement)
        self.consumers.update(held)
        self.write_faults, self.read_faults = list(write_faults), list(read_faults)
        self.late = []
        self.calls = []
        self.have(capacity)

    def have(self, capacity):
        """Set the units of providers; a provider ``x-child`` is below ``x``."""
        for uuid, units in capacity.items():
            inventories = {name: {"total": units} for name in ("VCPU", "DISK_GB")}
            root = uuid.removesuffix("-child")
            self.placement.providers[uuid] = model.Provider(uuid, inventories, root=root)

    def hide(self, uuid):
        """Take the record of a consumer away, so that its rows are not shown."""
        self.consumers.hidden[uuid] = self.placement.consumers.pop(uuid)

    @property
    def hidden(self):
        return {uuid for uuid, rows in self.placement.rows.items() if rows and not self.placement.shown(uuid)}

    def shown(self, uuid):
        """What Placement shows of a consumer."""
        return self.consumers[uuid] if self.placement.shown(uuid) else NOTHING

    def get(self, path, version, context=None):
        """As ``PlacementClient.get``."""
        if path.startswith("/resource_providers/"):
            root = path.rpartition("/")[2].removesuffix("-child")
            return Reply(200, orjson.dumps({"root_provider_uuid": root}))
        self._tick("read")
        if self.read_faults and self.read_faults.pop(0) == "silent":
            raise PlacementUnreachable("no")
        return _reply(self.placement.read(path))

    def write(self, method, path, version, context=None, body=None):
        """As ``PlacementClient.write``."""
        self._tick(method.lower())
        fault = self.write_faults.pop(0) if self.write_faults else "ok"
        name, _, number = fault.partition(" ")
        if fault in BEFORE:
            return _reply(BEFORE[fault]())
        write = self.placement.write(method, path, body)
        moments = list(self.placement.moments)
        if name in ("late", "begun"):
            if name == "begun":
                carry_out(write, moments[:-1])
                moments = moments[-1:]
            self.late.append((int(number), write, moments))
            raise PlacementUnanswered("late")
        carry_out(write, moments)
        return _reply(write.answer if fault == "ok" else AFTER[fault]())

    def settle(self):
        """All late writes arrive, and faults are over."""
        self.write_faults, self.read_faults = [], []
        for _, write, moments in self.late:
            carry_out(write, moments)
        self.late = []

    def _tick(self, name):
        self.calls.append(name)
        self.late = [(ticks - 1, *write) for ticks, *write in self.late]
        for _, write, moments in [each for each in self.late if not each[0]]:
            carry_out(write, moments)
        self.late = [each for each in self.late if each[0]]


def carry_out(write, moments):
    for moment in moments:
        if write.answer is None:
            moment(write)


def _reply(answer):
    """Raise what is an error, else return a Reply."""
    if isinstance(answer, Exception):
        raise answer
    return Reply(answer.status, answer.body)
