"""Providers in memory that answer as Placement does, for tests without a server."""

from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote

import orjson

from scheduler.placement.reply import Reply


@dataclass
class FakeProvider:
    """A provider; ``change`` it to raise its generation."""

    uuid: str
    memory: int = 4096
    used: dict = field(default_factory=dict)
    traits: set = field(default_factory=set)
    aggregates: set = field(default_factory=set)
    root: str = ""
    generation: int = 1
    inventories: dict = field(default_factory=dict)

    def __post_init__(self):
        self.root = self.root or self.uuid
        if self.memory:
            self.inventories.setdefault("MEMORY_MB", {"total": self.memory})

    def change(self, **values):
        """Change what it has, as others do."""
        for name, value in values.items():
            setattr(self, name, value)
        self.generation += 1

    def capacity(self, name):
        """What can be allocated of a class."""
        of_class = self.inventories[name]
        return int((of_class["total"] - of_class.get("reserved", 0)) * of_class.get("allocation_ratio", 1.0))

    def has_left(self, name, amount):
        """Whether it has so much left of a class, and its unit limits admit it."""
        of_class = self.inventories.get(name)
        if of_class is None or amount < of_class.get("min_unit", 1) or amount % of_class.get("step_size", 1):
            return False
        return self.used.get(name, 0) + amount <= self.capacity(name)


class FakePlacement:
    """A client of these providers.

    Attributes:
        asked: The paths of all GETs.
        failures: Path to an exception to raise, or a Reply to give, in place of the answer.
        traits: Names that it knows besides those of providers.
        before: Called with each path before it is answered.
        most_candidates: Bound of one answer; None: none.
    """

    def __init__(self, *providers):
        self.providers = {one.uuid: one for one in providers}
        self.asked = []
        self.failures = {}
        self.traits = set()
        self.before = lambda path: None
        self.most_candidates = None

    def get(self, path, version, context=None, *, search=False):
        self.asked.append(path)
        self.before(path)
        failure = self.failures.get(path)
        if isinstance(failure, Exception):
            raise failure
        if failure is not None:
            return failure
        what, _, query = path.partition("?")
        parts = [unquote(part) for part in what.strip("/").split("/")]
        if parts[0] == "allocation_candidates":
            return self._reply(self._wide(parse_qs(query)))
        if parts[0] == "traits":
            known = self.traits.union(*(one.traits for one in self.providers.values()))
            names = parse_qs(query)["name"][0].removeprefix("in:").split(",")
            return self._reply({"traits": sorted(known & set(names))})
        if len(parts) == 1:
            return self._reply({"resource_providers": [self._listed(one) for one in self._find(query)]})
        one = self.providers.get(parts[1])
        return Reply(404, b"") if one is None else self._reply(self._single(one, *parts[2:]))

    def _find(self, query):
        asked = parse_qs(query)
        names = {name for text in asked.get("required", []) for name in text.split(",")}
        forbidden = {name.removeprefix("!") for name in names if name.startswith("!")}
        amounts = [part.split(":") for part in asked.get("resources", [""])[0].split(",") if part]
        return [
            one
            for one in self.providers.values()
            if names - {f"!{name}" for name in forbidden} <= one.traits
            and not forbidden & one.traits
            and all(is_member(one, text) for text in asked.get("member_of", []))
            and all(one.has_left(name, int(amount)) for name, amount in amounts)
        ]

    def _wide(self, asked):
        any_of = set(asked.get("member_of", [""])[0].removeprefix("in:").split(",")) - {""}
        trees = {
            one.root
            for one in self.providers.values()
            if one.has_left("MEMORY_MB", 1) and (not any_of or any_of & self.providers[one.root].aggregates)
        }
        trees = set(sorted(trees)[: self.most_candidates])
        summaries = {one.uuid: self._summary(one) for one in self.providers.values() if one.root in trees}
        return {"allocation_requests": [], "provider_summaries": summaries}

    def _summary(self, one):
        resources = {
            name: {"capacity": one.capacity(name), "used": one.used.get(name, 0)} for name in one.inventories
        }
        return {"root_provider_uuid": one.root, "resources": resources, "traits": sorted(one.traits)}

    def _listed(self, one):
        return {"uuid": one.uuid, "generation": one.generation, "root_provider_uuid": one.root}

    def _single(self, one, what=""):
        generation = {"resource_provider_generation": one.generation}
        return {
            "": self._listed(one),
            "inventories": {"inventories": one.inventories, **generation},
            "usages": {"usages": {name: one.used.get(name, 0) for name in one.inventories}, **generation},
            "allocations": {"allocations": {}, **generation},
            "traits": {"traits": sorted(one.traits), **generation},
            "aggregates": {"aggregates": sorted(one.aggregates), **generation},
        }[what]

    def _reply(self, body):
        return Reply(200, orjson.dumps(body))


def is_member(provider, text):
    """Whether a provider meets a ``member_of``: one aggregate, ``in:`` any of some, or ``!in:`` none of them."""
    named = set(text.removeprefix("!").removeprefix("in:").split(","))
    return bool(named & provider.aggregates) is not text.startswith("!")
