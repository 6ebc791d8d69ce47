"""A model of Placement: what claims rely on, with the traps of its transactions.

spec: placement-and-workflow 2.1, 4.2-4.9, 6.1, 6.2

A write has three moments, between which others may come: it looks at its consumers, makes records for new
ones, and commits. So two writes for one new consumer can overlap, and the loser can take the winner's record
away, whose rows are then counted but not shown. And two writes that overlap on one provider can over-commit
it: each counts what was used when it began.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
import itertools
from typing import Any
from urllib.parse import parse_qs, unquote

import orjson

Amounts = dict[str, int]
Rows = dict[str, Amounts]
"""provider uuid → resource class → amount"""


@dataclass(slots=True)
class Provider:
    """A compute node.

    Attributes:
        uuid: Its uuid.
        inventory: Resource class → capacity.
        generation: It grows with each write that names the provider, or takes something from it.
    """

    uuid: str
    inventory: Amounts
    generation: int = 1


@dataclass(slots=True)
class Consumer:
    """The record of a consumer. ``created_by``: the number of the write that made it."""

    generation: int
    project_id: str
    user_id: str
    created_by: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body of an answer."""

    status: int
    body: bytes = b""


def refusal(status: int, detail: str, code: str = "placement.undefined_code") -> Answer:
    """Return an error as Placement words it."""
    error = {"status": status, "detail": detail, "code": code, "title": "error"}
    return Answer(status, orjson.dumps({"errors": [error]}))


def concurrent(detail: str) -> Answer:
    """Return a 409 after which the request may be sent again."""
    return refusal(409, detail, "placement.concurrent_update")


DONE = Answer(204)
TRAITS = ["COMPUTE_NODE", "OWNER_NOVA"]
ANOTHER_THREAD = "Another thread concurrently updated the data. Please retry your update"


@dataclass
class Write:
    """A write in progress.

    Attributes:
        bodies: Consumer uuid to body.
        seen: The generation that each consumer had when it was looked at; None for a new one.
        used: What others used of each provider and resource class then.
        answer: The outcome, once it is known.
    """

    number: int
    bodies: Mapping[str, Mapping[str, Any]]
    seen: dict[str, int | None] = field(default_factory=dict)
    used: dict[tuple[str, str], int] = field(default_factory=dict)
    answer: Answer | None = None


class Placement:
    """Providers, consumers and allocations; no transport, no time.

    Attributes:
        overtaken: Consumers whose rows were replaced by a write that expected none: it began before they were
            written, or they were hidden.
        overfilled: Provider to the consumers of the last claim that left it over its capacity.
    """

    def __init__(self, providers: Sequence[Provider]) -> None:
        self.providers = {provider.uuid: provider for provider in providers}
        self.consumers: dict[str, Consumer] = {}
        self.rows: dict[str, Rows] = {}
        self._numbers = itertools.count(1)
        self.overtaken: set[str] = set()
        self.overfilled: dict[str, set[str]] = {}

    # -- what a checker looks at -----------------------------------------------------------------------------

    def held(self, uuid: str) -> Rows:
        """Return all rows of a consumer, also those that Placement does not show."""
        return self.rows.get(uuid, {})

    def shown(self, uuid: str) -> Rows:
        """Return the rows of a consumer that has a record."""
        return self.held(uuid) if uuid in self.consumers else {}

    def used(self, provider: str, name: str, but: Sequence[str] = ()) -> int:
        """Return the sum of all rows on a provider, but for some consumers."""
        return sum(rows.get(provider, {}).get(name, 0) for uuid, rows in self.rows.items() if uuid not in but)

    # -- reads -----------------------------------------------------------------------------------------------

    def read(self, path: str) -> Answer:
        """Answer a GET."""
        path, _, query = path.partition("?")
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[0] == "allocation_candidates":
            return self._candidates(query)
        if parts[0] == "allocations":
            return self._allocations(parts[1])
        if parts[0] == "resource_providers" and len(parts) == 1:
            return self._listed(query)
        if parts[0] == "resource_providers":
            return self._provider(parts[1], parts[2] if len(parts) > 2 else "")
        versions = {"versions": [{"id": "v1.0", "max_version": "1.39", "min_version": "1.0"}]}
        return Answer(200, orjson.dumps(versions))

    def _allocations(self, uuid: str) -> Answer:
        rows = self.shown(uuid)
        if not rows:
            return Answer(200, b'{"allocations": {}}')
        consumer = self.consumers[uuid]
        entries = {provider: {"resources": amounts, "generation": 1} for provider, amounts in rows.items()}
        body = {
            "allocations": entries,
            "consumer_generation": consumer.generation,
            "project_id": consumer.project_id,
            "user_id": consumer.user_id,
        }
        return Answer(200, orjson.dumps(body))

    def _provider(self, uuid: str, what: str) -> Answer:
        provider = self.providers.get(uuid)
        if provider is None:
            return refusal(404, f"No resource provider with uuid {uuid} found")
        if not what:
            return Answer(200, orjson.dumps(self._named(provider)))
        parts = {
            "aggregates": [],
            "allocations": {each: {"resources": rows[uuid]} for each, rows in self._shown_on(uuid)},
            "inventories": {
                name: {"total": most, "reserved": 0, "allocation_ratio": 1.0}
                for name, most in provider.inventory.items()
            },
            "traits": TRAITS,
            "usages": {name: self.used(uuid, name) for name in provider.inventory},
        }
        body = {what: parts[what], "resource_provider_generation": provider.generation}
        return Answer(200, orjson.dumps(body))

    def _shown_on(self, provider: str) -> list[tuple[str, Rows]]:
        """Return the consumers that Placement shows on a provider, with their rows."""
        return [(each, rows) for each in self.consumers if provider in (rows := self.held(each))]

    @staticmethod
    def _named(provider: Provider) -> dict[str, Any]:
        uuid = provider.uuid
        body = {"uuid": uuid, "name": uuid, "generation": provider.generation, "root_provider_uuid": uuid}
        return {**body, "parent_provider_uuid": None}

    def _listed(self, query: str) -> Answer:
        """Return the compute nodes that a query asks for."""
        fitting = self._fitting(parse_qs(query))
        return Answer(200, orjson.dumps({"resource_providers": [self._named(each) for each in fitting]}))

    def _fitting(self, asked: Mapping[str, Sequence[str]]) -> list[Provider]:
        """Return the compute nodes with room, if their traits suit: all have the same, and no aggregate."""
        wanted, traits = _wanted(asked), ",".join(asked.get("required", [])).split(",")
        suits = all(
            trait.removeprefix("!") not in TRAITS if trait.startswith("!") else trait in TRAITS
            for trait in traits
            if trait
        )
        is_member = all(text.startswith("!") for text in asked.get("member_of", []))
        if not (suits and is_member):
            return []
        return [each for each in self.providers.values() if self._fits(each, wanted)]

    def _candidates(self, query: str) -> Answer:
        asked = parse_qs(query)
        wanted, fitting = _wanted(asked), self._fitting(asked)
        limit = int(asked.get("limit", [len(fitting)])[0])
        requests = [
            {"allocations": {each.uuid: {"resources": wanted}}, "mappings": {"": [each.uuid]}}
            for each in fitting[:limit]
        ]
        summaries = {each.uuid: self._summary(each) for each in fitting[:limit]}
        return Answer(200, orjson.dumps({"allocation_requests": requests, "provider_summaries": summaries}))

    def _fits(self, provider: Provider, wanted: Amounts) -> bool:
        return all(
            self.used(provider.uuid, name) + amount <= provider.inventory.get(name, 0)
            for name, amount in wanted.items()
        )

    def _summary(self, provider: Provider) -> dict[str, Any]:
        resources = {
            name: {"capacity": most, "used": self.used(provider.uuid, name)}
            for name, most in provider.inventory.items()
        }
        return {
            "resources": resources,
            "traits": TRAITS,
            "parent_provider_uuid": None,
            "root_provider_uuid": provider.uuid,
        }

    # -- writes ----------------------------------------------------------------------------------------------

    def delete(self, uuid: str) -> Answer:
        """Carry out ``DELETE /allocations/{uuid}``."""
        if not self.shown(uuid):
            return refusal(404, f"No allocations for consumer '{uuid}'")
        del self.rows[uuid]
        del self.consumers[uuid]
        return DONE

    def write(self, method: str, path: str, body: bytes) -> Write:
        """Begin a PUT or POST; to be continued by each of ``moments``."""
        return Write(next(self._numbers), bodies_of(method, path, body))

    @property
    def moments(self) -> tuple[Callable[[Write], None], ...]:
        """What a write does, one after the other, until it has its answer."""
        return self.look, self.make_records, self.commit

    def look(self, write: Write) -> None:
        """Compare the generations that the client expects."""
        for uuid, body in write.bodies.items():
            record = self.consumers.get(uuid)
            generation = None if record is None else record.generation
            given = body["consumer_generation"]
            if given != generation:
                expected = "null" if generation is None else generation
                text = f"consumer generation conflict - expected {expected} but got {given}"
                write.answer = concurrent(text)
                return
            write.seen[uuid] = generation
        for provider, name in _needed(write):
            write.used[provider, name] = self.used(provider, name, list(write.bodies))

    def make_records(self, write: Write) -> None:
        """Make records for new consumers; one that somebody else just made is used."""
        for uuid, body in write.bodies.items():
            if write.seen[uuid] is None:
                record = Consumer(0, body["project_id"], body["user_id"], write.number)
                self.consumers.setdefault(uuid, record)
                if self.rows.get(uuid):
                    # Another write has given it rows, or its rows are hidden. Either way this one goes on as
                    # if it had been first, and replaces them.
                    self.overtaken.add(uuid)
                write.seen[uuid] = self.consumers[uuid].generation
            elif uuid not in self.consumers:
                write.answer = concurrent(ANOTHER_THREAD)
                return
        for body in write.bodies.values():
            for provider in body["allocations"]:
                if provider not in self.providers:
                    text = f"Allocation for resource provider '{provider}' that does not exist."
                    write.answer = refusal(400, text)
                    return

    def commit(self, write: Write) -> None:
        """Replace the rows of all consumers, or of none."""
        write.answer = self._changed(write) or self._over_capacity(write)
        if write.answer is not None:
            self._remove_records(write)
            return
        named: set[str] = set()
        added = self.added(write.bodies)
        for uuid, body in write.bodies.items():
            rows = {name: dict(entry["resources"]) for name, entry in body["allocations"].items()}
            named |= rows.keys() or self.held(uuid).keys()
            self._store(uuid, rows, body)
        for provider in named & self.providers.keys():
            self.providers[provider].generation += 1
            if provider in added and self.is_over(provider):
                self.overfilled[provider] = set(write.bodies)
        write.answer = DONE

    def added(self, bodies: Mapping[str, Mapping[str, Any]]) -> set[str]:
        """Return the providers of which a write gives a consumer something that holds nothing there."""
        return {
            each for uuid, body in bodies.items() for each in body["allocations"].keys() - self.held(uuid)
        }

    def is_over(self, provider: str) -> bool:
        """Return whether more is used of a provider than it has."""
        inventory = self.providers[provider].inventory
        return any(self.used(provider, name) > most for name, most in inventory.items())

    def _store(self, uuid: str, rows: Rows, body: Mapping[str, Any]) -> None:
        had = self.rows.pop(uuid, None)
        record = self.consumers[uuid]
        if rows:
            self.rows[uuid] = rows
            record.generation += 1
            record.project_id, record.user_id = body["project_id"], body["user_id"]
        elif had:
            del self.consumers[uuid]

    def _changed(self, write: Write) -> Answer | None:
        for uuid, seen in write.seen.items():
            record = self.consumers.get(uuid)
            if record is None or record.generation != seen:
                return concurrent(ANOTHER_THREAD)
        return None

    def _remove_records(self, write: Write) -> None:
        # Also that of a consumer to which another write has given rows since: they are not shown any more.
        for uuid in write.bodies:
            record = self.consumers.get(uuid)
            if record is not None and record.created_by == write.number:
                del self.consumers[uuid]

    def _over_capacity(self, write: Write) -> Answer | None:
        consumers = list(write.bodies)
        for (provider, name), amount in _needed(write).items():
            if provider not in self.providers:
                text = f"Inventory for '{name}' on resource provider '{provider}' invalid."
                return refusal(409, f"Unable to allocate inventory: {text}")
            used = write.used[provider, name]
            before = self.used(provider, name) - self.used(provider, name, consumers)
            if used + amount > self.providers[provider].inventory.get(name, 0) and amount > before:
                return refusal(
                    409,
                    f"Unable to allocate inventory: Unable to create allocation for '{name}' on resource "
                    f"provider '{provider}'. The requested amount would exceed the capacity.",
                )
        return None


def bodies_of(method: str, path: str, body: bytes) -> Mapping[str, Mapping[str, Any]]:
    """Return what a PUT or POST says of each consumer."""
    data = orjson.loads(body)
    return data if method == "POST" else {unquote(path.rpartition("/")[2]): data}


def _needed(write: Write) -> dict[tuple[str, str], int]:
    """Return what a write takes, by provider and resource class."""
    needed: dict[tuple[str, str], int] = {}
    for body in write.bodies.values():
        for provider, entry in body["allocations"].items():
            for name, amount in entry["resources"].items():
                needed[provider, name] = needed.get((provider, name), 0) + amount
    return needed


def _wanted(asked: Mapping[str, Sequence[str]]) -> Amounts:
    """Return the amounts that a query asks for, by resource class."""
    parts = asked.get("resources", [""])[0].split(",")
    return {name: int(amount) for name, _, amount in (part.partition(":") for part in parts if part)}
