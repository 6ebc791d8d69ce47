"""Placement behind a ``PlacementClient``: generations, capacity and empty consumers as it has them, and faults on demand."""

from dataclasses import dataclass, field
from urllib.parse import unquote

import orjson

from scheduler.placement.allocations import NOTHING, ConsumerAllocations, Owner
from scheduler.placement.client import Reply
from scheduler.placement.errors import PlacementUnanswered, PlacementUnreachable


def error(status, detail="", code="placement.undefined_code"):
    return Reply(status, orjson.dumps({"errors": [{"status": status, "detail": detail, "code": code}]}))


DONE = Reply(204)
CONCURRENT = error(409, "Another thread concurrently updated the data", "placement.concurrent_update")


@dataclass
class FakeConsumers:
    """``capacity``: provider → units that it has; every allocation takes one.

    Faults of writes, one each: ``ok``, ``lost`` (before it got there), ``unanswered`` (carried out), ``timeout``
    (carried out), ``late N`` (carried out N calls later), ``500`` (not carried out), ``500 after``, ``html`` (of a
    proxy, not carried out), ``garbage`` (carried out), ``403``, ``concurrent``, ``unreachable``, ``hidden``
    (carried out, but not shown until written again), ``begun N`` (the record of the consumer is made at once,
    the rest is done N calls later), ``refused``, ``conflict`` (not carried out)
    Faults of reads: ``ok``, ``silent``.
    """

    capacity: dict
    consumers: dict = field(default_factory=dict)
    write_faults: list = field(default_factory=list)
    read_faults: list = field(default_factory=list)
    late: list = field(default_factory=list)
    hidden: set = field(default_factory=set)
    calls: list = field(default_factory=list)

    def get(self, path, version, context=None):
        """As ``PlacementClient.get``."""
        kind, _, uuid = path.strip("/").partition("/")
        if kind == "resource_providers":
            return Reply(200, orjson.dumps({"root_provider_uuid": self.get_root_provider(uuid)}))
        held = self.get_allocations(unquote(uuid), context)
        owner = {"project_id": held.owner.project_id, "user_id": held.owner.user_id}
        told = {"allocations": held.allocations, "consumer_generation": held.generation, **owner}
        return Reply(200, orjson.dumps(told))

    def write(self, method, path, version, context=None, body=None):
        """As ``PlacementClient.write``."""
        data = orjson.loads(body)
        if method == "POST":
            return self.post_allocations(data, context)
        return self.put_allocations(unquote(path.rpartition("/")[2]), data, context)

    def give(self, uuid, allocations, owner=Owner("project", "user")):  # noqa: B008
        self.consumers[uuid] = ConsumerAllocations(allocations, 1, owner)

    def used(self, provider):
        return sum(provider in held.allocations for held in self.consumers.values())

    def settle(self):
        """All late writes arrive, and faults are over."""
        self.write_faults, self.read_faults = [], []
        for _, uuid, body in self.late:
            self._apply(uuid, body)
        self.late = []

    def get_allocations(self, uuid, context=None):
        self._tick("read")
        if self.read_faults and self.read_faults.pop(0) == "silent":
            raise PlacementUnreachable("no")
        held = self.consumers.get(uuid, NOTHING)
        return held if held.allocations and uuid not in self.hidden else NOTHING

    def get_root_provider(self, provider, context=None):
        return provider.removesuffix("-child")

    def put_allocations(self, uuid, body, context=None):
        self._tick("put")
        fault, _, number = (self.write_faults.pop(0) if self.write_faults else "ok").partition(" ")
        return getattr(self, f"_{'after' if fault + number == '500after' else fault}")(uuid, body, number)

    def post_allocations(self, bodies, context=None):
        self._tick("post")
        fault, _, number = (self.write_faults.pop(0) if self.write_faults else "ok").partition(" ")
        return getattr(self, f"_{'after' if fault + number == '500after' else fault}")(None, bodies, number)

    def _tick(self, name):
        self.calls.append(name)
        due = [write for write in self.late if write[0] <= 1]
        self.late = [(ticks - 1, uuid, body) for ticks, uuid, body in self.late if ticks > 1]
        for _, uuid, body in due:
            self._apply(uuid, body)

    def _ok(self, uuid, body, _):
        return self._apply(uuid, body)

    def _lost(self, *_):
        raise PlacementUnanswered("lost")

    def _unanswered(self, uuid, body, _):
        self._apply(uuid, body)
        raise PlacementUnanswered("lost")

    def _timeout(self, uuid, body, _):
        self._apply(uuid, body)
        raise PlacementUnanswered("late", timed_out=True)

    def _late(self, uuid, body, number):
        self.late.append((int(number), uuid, body))
        raise PlacementUnanswered("late")

    def _begun(self, uuid, body, number):
        self.consumers.setdefault(uuid, ConsumerAllocations({}, 0))
        self.late.append((int(number), uuid, {**body, "begun": True}))
        raise PlacementUnanswered("late")

    def _500(self, *_):
        return error(500, "deadlock")

    def _after(self, uuid, body, _):
        self._apply(uuid, body)
        return error(500, "deadlock")

    def _html(self, *_):
        return Reply(502, b"<html>Bad Gateway</html>")

    def _garbage(self, uuid, body, _):
        self._apply(uuid, body)
        return Reply(200, b"\x00")

    def _403(self, *_):
        return error(403, "not for you")

    def _concurrent(self, *_):
        return CONCURRENT

    def _refused(self, *_):
        return error(409, "Unable to create allocation for 'VCPU' on resource provider 'f0'.")

    def _conflict(self, *_):
        return error(
            409, "consumer generation conflict - expected null but got 7", "placement.concurrent_update"
        )

    def _unreachable(self, *_):
        raise PlacementUnreachable("no")

    def _hidden(self, uuid, body, _):
        reply = self._apply(uuid, body)
        self.hidden.add(uuid)
        return reply

    def _apply(self, uuid, body):
        return self._apply_all(body) if uuid is None else self._apply_one(uuid, body)

    def _apply_all(self, bodies):
        before = dict(self.consumers)
        for uuid, body in bodies.items():  # Placement looks at all consumers first
            if conflict := self._conflict_of(uuid, body):
                return conflict
        for uuid, body in bodies.items():
            reply = self._apply_one(uuid, body)
            if reply.status != 204:
                self.consumers = before
                if "does not exist" in reply.detail:
                    for one in bodies:
                        self.consumers.setdefault(one, ConsumerAllocations({}, 0))
                return reply
        return DONE

    def _generation_of(self, uuid):
        held = self.consumers.get(uuid)
        return None if held is None or uuid in self.hidden else held.generation

    def _conflict_of(self, uuid, body):
        generation = self._generation_of(uuid)
        if body["consumer_generation"] == (None if body.get("begun") else generation):
            return None
        text = f"consumer generation conflict - expected {'null' if generation is None else generation} but got x"
        return error(409, text, "placement.concurrent_update")

    def _apply_one(self, uuid, body):
        held = self.consumers.get(uuid)
        generation = self._generation_of(uuid)
        if body.get("begun") and generation != 0:
            self.hidden.add(uuid)  # it is refused, and removes the record that it has made
            return CONCURRENT
        if conflict := self._conflict_of(uuid, body):
            return conflict
        owner = Owner(body["project_id"], body["user_id"])
        for provider in body["allocations"]:
            if provider not in self.capacity:
                self.consumers.setdefault(uuid, ConsumerAllocations({}, 0, owner))
                return error(400, f"Allocation for resource provider '{provider}' that does not exist.")
            mine = held is not None and provider in held.allocations
            if not mine and self.used(provider) >= self.capacity[provider]:
                return error(
                    409,
                    f"Unable to allocate inventory: Unable to create allocation for 'VCPU' on resource provider "
                    f"'{provider}'. The requested amount would exceed the capacity.",
                )
        self.hidden.discard(uuid)
        if body["allocations"]:
            self.consumers[uuid] = ConsumerAllocations(body["allocations"], (generation or 0) + 1, owner)
        else:
            self.consumers.pop(uuid, None)
        return DONE
