"""A model of Placement: what claims rely on, with the traps of its transactions.

spec: placement-and-workflow 2.1, 4.2-4.9, 6.1, 6.2

A write has three moments, between which others may come: it looks at its consumers, makes records for new
ones, and commits. So two writes for one new consumer can overlap, and the loser can take the winner's record
away, whose rows are then counted but not shown. And two writes that overlap on one provider can over-commit
it: each counts what was used when it began.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from email.utils import formatdate
import itertools
from typing import Any
from urllib.parse import parse_qs, unquote

import orjson

Amounts = dict[str, int]
Rows = dict[str, Amounts]
"""provider uuid → resource class → amount"""


@dataclass(slots=True)
class Provider:
    """A resource provider.

    Attributes:
        uuid: Its uuid.
        inventories: Resource class → the fields that differ from Placement's defaults.
        traits: Names.
        aggregates: Uuids.
        root: The uuid of the root of its tree; "" for a root.
        used: What consumers outside of the model use.
        generation: It grows with each write that names the provider, or takes something from it.
        unchanged_for: Seconds since its creation or the last such write, whenever it is read.
    """

    uuid: str
    inventories: dict[str, dict[str, Any]]
    traits: set[str] = field(default_factory=lambda: {"COMPUTE_NODE", "OWNER_NOVA"})
    aggregates: set[str] = field(default_factory=set)
    root: str = ""
    used: Amounts = field(default_factory=dict)
    generation: int = 1
    unchanged_for: float = 0.0

    def __post_init__(self) -> None:
        self.root = self.root or self.uuid

    def change(self, **values: Any) -> None:
        """Set attributes as others do, which raises the generation."""
        for name, value in values.items():
            setattr(self, name, value)
        self.note_write()

    def note_write(self) -> None:
        """Raise the generation."""
        self.generation, self.unchanged_for = self.generation + 1, 0.0

    def inventory(self, name: str) -> dict[str, Any]:
        """Return all fields of the inventory of a class."""
        return DEFAULTS | self.inventories[name]

    def capacity(self, name: str) -> int:
        """Return how much of a class can be allocated; 0 without an inventory."""
        if name not in self.inventories:
            return 0
        fields = self.inventory(name)
        return int((fields["total"] - fields["reserved"]) * fields["allocation_ratio"])

    def admits(self, name: str, amount: int) -> bool:
        """Return whether there is an inventory of a class, and its unit limits admit an amount."""
        if name not in self.inventories:
            return False
        fields = self.inventory(name)
        return fields["min_unit"] <= amount <= fields["max_unit"] and amount % fields["step_size"] == 0

    @property
    def listed(self) -> dict[str, Any]:
        """What Placement answers about the provider itself."""
        return {
            "uuid": self.uuid,
            "name": self.uuid,
            "generation": self.generation,
            "root_provider_uuid": self.root,
            "parent_provider_uuid": None if self.root == self.uuid else self.root,
        }


@dataclass(slots=True)
class Consumer:
    """The record of a consumer. ``created_by``: the number of the write that made it."""

    generation: int
    project_id: str
    user_id: str
    created_by: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, body and headers of an answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal(status: int, detail: str, code: str = "placement.undefined_code") -> Answer:
    """Return an error as Placement words it."""
    error = {"status": status, "detail": detail, "code": code, "title": "error"}
    return Answer(status, orjson.dumps({"errors": [error]}))


def concurrent(detail: str) -> Answer:
    """Return a 409 after which the request may be sent again."""
    return refusal(409, detail, "placement.concurrent_update")


DONE = Answer(204)
NOW = 2.0e9
"""Seconds since the epoch, whenever something is read."""
DEFAULTS = {"reserved": 0, "min_unit": 1, "max_unit": 2**31 - 1, "step_size": 1, "allocation_ratio": 1.0}
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
        max_candidates: The limit of ``max_allocation_candidates``; None: no limit.
        custom_traits: Traits besides those of providers.
        overfilled: Provider to the consumers of the last claim that left it over its capacity.
    """

    def __init__(self, providers: Sequence[Provider]) -> None:
        self.providers = {provider.uuid: provider for provider in providers}
        self.consumers: dict[str, Consumer] = {}
        self.rows: dict[str, Rows] = {}
        self._numbers = itertools.count(1)
        self.overtaken: set[str] = set()
        self.overfilled: dict[str, set[str]] = {}
        self.max_candidates: int | None = None
        self.custom_traits: set[str] = set()

    # -- what a checker looks at -----------------------------------------------------------------------------

    def held(self, uuid: str) -> Rows:
        """Return all rows of a consumer, also those that Placement does not show."""
        return self.rows.get(uuid, {})

    def shown(self, uuid: str) -> Rows:
        """Return the rows of a consumer that has a record."""
        return self.held(uuid) if uuid in self.consumers else {}

    def used(self, provider: str, name: str, but: Sequence[str] = ()) -> int:
        """Return what all consumers use of a provider, but for some consumers."""
        others = self.providers[provider].used.get(name, 0) if provider in self.providers else 0
        rows = (rows.get(provider, {}) for uuid, rows in self.rows.items() if uuid not in but)
        return others + sum(amounts.get(name, 0) for amounts in rows)

    def fits(self, provider: Provider, name: str, amount: int) -> bool:
        """Return whether a provider has an amount of a class left, and its unit limits admit it."""
        used = self.used(provider.uuid, name)
        return provider.admits(name, amount) and used + amount <= provider.capacity(name)

    # -- reads -----------------------------------------------------------------------------------------------

    def read(self, path: str) -> Answer:
        """Answer a GET."""
        path, _, query = path.partition("?")
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[0] == "allocation_candidates":
            return self._candidates(query)
        if parts[0] == "allocations":
            return self._allocations(parts[1])
        if parts[0] == "traits":
            known = self.custom_traits.union(*(each.traits for each in self.providers.values()))
            names = parse_qs(query)["name"][0].removeprefix("in:").split(",")
            return _found({"traits": sorted(known & set(names))})
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
            dates = {"Date": NOW, "Last-Modified": NOW - provider.unchanged_for}
            headers = {name: formatdate(date, usegmt=True) for name, date in dates.items()}
            return Answer(200, orjson.dumps(provider.listed), headers)
        parts = {
            "aggregates": sorted(provider.aggregates),
            "allocations": {each: {"resources": rows[uuid]} for each, rows in self._shown_on(uuid)},
            "inventories": {name: provider.inventory(name) for name in provider.inventories},
            "traits": sorted(provider.traits),
            "usages": {name: self.used(uuid, name) for name in provider.inventories},
        }
        return _found({what: parts[what], "resource_provider_generation": provider.generation})

    def _shown_on(self, provider: str) -> list[tuple[str, Rows]]:
        """Return the consumers that Placement shows on a provider, with their rows."""
        return [(each, rows) for each in self.consumers if provider in (rows := self.held(each))]

    def _listed(self, query: str) -> Answer:
        """Return the providers that a query asks for."""
        asked = parse_qs(query)
        wanted = _wanted(asked)
        fitting = [
            each.listed
            for each in self.providers.values()
            if each.uuid in asked.get("uuid", [each.uuid])
            and _suits(each.traits, asked, "required")
            and _is_member(each.aggregates, asked)
            and all(self.fits(each, name, amount) for name, amount in wanted.items())
        ]
        return _found({"resource_providers": fitting})

    def _candidates(self, query: str) -> Answer:
        asked = parse_qs(query)
        trees: dict[str, list[Provider]] = {}
        for provider in self.providers.values():
            trees.setdefault(provider.root, []).append(provider)
        requests = [each for root, tree in trees.items() for each in self._requests(root, tree, asked)]
        limit = int(asked.get("limit", [len(requests)])[0])
        requests = requests[: limit if self.max_candidates is None else min(limit, self.max_candidates)]
        roots = {self.providers[uuid].root: None for each in requests for uuid in each["allocations"]}
        summaries = {each.uuid: self._summary(each) for root in roots for each in trees[root]}
        return _found({"allocation_requests": requests, "provider_summaries": summaries})

    def _requests(
        self, root: str, tree: Sequence[Provider], asked: Mapping[str, Sequence[str]]
    ) -> Iterator[dict[str, Any]]:
        """Yield each way to take what is asked for from a tree: every class from one of its providers.

        Numbered groups do without traits, and may be spread over a tree as the group without a number.
        """
        top = self.providers[root]
        if not _suits(top.traits, asked, "root_required"):
            return
        wanted = _wanted(asked)
        members = [each for each in tree if _is_member(each.aggregates | top.aggregates, asked)]
        places = (
            [each for each in members if self.fits(each, name, amount)] for name, amount in wanted.items()
        )
        for chosen in itertools.product(*places):
            if not _suits(set().union(*(each.traits for each in chosen)), asked, "required"):
                continue
            taken: Rows = {}
            for provider, (name, amount) in zip(chosen, wanted.items(), strict=True):
                taken.setdefault(provider.uuid, {})[name] = amount
            allocations = {uuid: {"resources": amounts} for uuid, amounts in taken.items()}
            mappings = {
                suffix: sorted(uuid for uuid, amounts in taken.items() if amounts.keys() & group)
                for suffix, group in _groups(asked).items()
            }
            yield {"allocations": allocations, "mappings": mappings}

    def _summary(self, provider: Provider) -> dict[str, Any]:
        resources = {
            name: {"capacity": provider.capacity(name), "used": self.used(provider.uuid, name)}
            for name in provider.inventories
        }
        places = {name: provider.listed[name] for name in ("parent_provider_uuid", "root_provider_uuid")}
        return {"resources": resources, "traits": sorted(provider.traits), **places}

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
            self.providers[provider].note_write()
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
        place = self.providers[provider]
        return any(self.used(provider, name) > place.capacity(name) for name in place.inventories)

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
        for (provider, name), amounts in _needed(write).items():
            place = self.providers.get(provider)
            if place is None or name not in place.inventories:
                text = f"Inventory for '{name}' on resource provider '{provider}' invalid."
                return refusal(409, f"Unable to allocate inventory: {text}")
            used = write.used[provider, name]
            before = self.used(provider, name) - self.used(provider, name, consumers)
            problem = ""
            if not all(place.admits(name, amount) for amount in amounts):
                problem = "violate inventory constraints"
            elif used + sum(amounts) > place.capacity(name) and sum(amounts) > before:
                problem = "exceed the capacity"
            if problem:
                return refusal(
                    409,
                    f"Unable to allocate inventory: Unable to create allocation for '{name}' on resource "
                    f"provider '{provider}'. The requested amount would {problem}.",
                )
        return None


def bodies_of(method: str, path: str, body: bytes) -> Mapping[str, Mapping[str, Any]]:
    """Return what a PUT or POST says of each consumer."""
    data = orjson.loads(body)
    return data if method == "POST" else {unquote(path.rpartition("/")[2]): data}


def _found(body: Mapping[str, Any]) -> Answer:
    return Answer(200, orjson.dumps(body))


def _needed(write: Write) -> dict[tuple[str, str], list[int]]:
    """Return the amounts that a write takes, by provider and resource class."""
    needed: dict[tuple[str, str], list[int]] = {}
    for body in write.bodies.values():
        for provider, entry in body["allocations"].items():
            for name, amount in entry["resources"].items():
                needed.setdefault((provider, name), []).append(amount)
    return needed


def _suits(traits: AbstractSet[str], asked: Mapping[str, Sequence[str]], param: str) -> bool:
    """Return whether traits are those that a parameter requires, without those that it forbids."""
    names = {name for text in asked.get(param, []) for name in text.split(",")}
    return all((name.removeprefix("!") in traits) is not name.startswith("!") for name in names)


def _is_member(aggregates: AbstractSet[str], asked: Mapping[str, Sequence[str]]) -> bool:
    """Return whether aggregates meet each ``member_of``: one of those named, or with ``!`` none of them."""
    return all(
        aggregates.isdisjoint(text.removeprefix("!").removeprefix("in:").split(",")) is text.startswith("!")
        for text in asked.get("member_of", [])
    )


def _groups(asked: Mapping[str, Sequence[str]]) -> dict[str, Amounts]:
    """Return the amounts that a query asks for, by the suffix of their group and resource class."""
    return {
        param.removeprefix("resources"): {
            name: int(amount) for name, _, amount in (part.partition(":") for part in parts.split(","))
        }
        for param, (parts, *_) in asked.items()
        if param.startswith("resources")
    }


def _wanted(asked: Mapping[str, Sequence[str]]) -> Amounts:
    """Return the amounts that a query asks for in all groups, by resource class."""
    wanted: Amounts = {}
    for group in _groups(asked).values():
        for name, amount in group.items():
            wanted[name] = wanted.get(name, 0) + amount
    return wanted
