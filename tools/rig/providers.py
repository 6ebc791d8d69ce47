"""Create providers in Placement, over HTTP (``create_fleet``) or directly in its database (``fill``).

The provider of a compute host has the UUID of its ComputeNode record. A sharing provider has the trait
``MISC_SHARES_VIA_AGGREGATE`` and an aggregate in common with the providers that use it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
import uuid

import requests
import sqlalchemy as sa

HEADERS = {"X-Auth-Token": "admin", "X-Roles": "admin,service", "OpenStack-API-Version": "placement 1.36"}
INVENTORY = {"reserved": 0, "min_unit": 1, "max_unit": 2147483647, "step_size": 1, "allocation_ratio": 1.0}
HOST_INVENTORIES = {
    "VCPU": {"total": 64, "allocation_ratio": 4.0, "max_unit": 64},
    "MEMORY_MB": {"total": 524288, "reserved": 512},
    "DISK_GB": {"total": 4000},
}
_TABLES = (
    "resource_providers",
    "resource_provider_traits",
    "resource_provider_aggregates",
    "placement_aggregates",
    "inventories",
    "traits",
    "resource_classes",
)
#: All that a cloud has written, in the order in which it can be removed.
_OF_CLOUDS = (
    *("allocations", "consumers", "inventories", "resource_provider_traits", "resource_provider_aggregates"),
    *("resource_providers", "placement_aggregates", "projects", "users"),
)
HOST_TRAITS = ("COMPUTE_NODE", "OWNER_NOVA", "HW_CPU_X86_AVX2", "HW_CPU_X86_VMX")


@dataclass(frozen=True, slots=True)
class Provider:
    """One resource provider. ``inventories``: class → the fields that differ from Placement's defaults."""

    name: str
    uuid: str
    inventories: dict[str, dict] = field(default_factory=lambda: HOST_INVENTORIES)
    traits: Sequence[str] = HOST_TRAITS
    aggregates: Sequence[str] = ()
    parent: str | None = None


def hosts(count: int, prefix: str = "host") -> list[Provider]:
    """Return ``count`` equal compute hosts, named ``host-00000`` …; the name determines the UUID."""
    names = (f"{prefix}-{number:05d}" for number in range(count))
    return [Provider(name, str(uuid.uuid5(uuid.NAMESPACE_DNS, name))) for name in names]


def create_fleet(url: str, providers: Iterable[Provider]) -> None:
    """Create the providers over HTTP, about 100 per second; ``providers`` has parents before their children.

    The generations 0, 1, 2 of a new provider are known, so this function reads nothing
    (spec: placement-and-workflow 8.3).
    """
    providers = list(providers)
    with requests.Session() as session:
        _names(session, url, providers)
        for provider in providers:
            _create(session, url, provider)


def _names(session, url, providers) -> None:
    traits = {trait for provider in providers for trait in provider.traits}
    classes = {name for provider in providers for name in provider.inventories}
    for kind, names in (("traits", traits), ("resource_classes", classes)):
        for name in sorted(names):
            if name.startswith("CUSTOM_"):
                _sent(session, "PUT", f"{url}/{kind}/{name}")


def _create(session, url, provider) -> None:
    body = {"name": provider.name, "uuid": provider.uuid}
    if provider.parent:
        body["parent_provider_uuid"] = provider.parent
    _sent(session, "POST", f"{url}/resource_providers", body)
    parts = (
        ("inventories", provider.inventories),
        ("traits", list(provider.traits)),
        ("aggregates", list(provider.aggregates)),
    )
    generation = 0
    for name, value in parts:
        if value:
            body = {"resource_provider_generation": generation, name: value}
            _sent(session, "PUT", f"{url}/resource_providers/{provider.uuid}/{name}", body)
            generation += 1


def send(method: str, url: str, body: Any = None, *, session: Any = requests, version: str = "1.36") -> Any:
    """Return the response of Placement to a request, whatever its status."""
    headers = HEADERS | {"OpenStack-API-Version": f"placement {version}"}
    return session.request(method, url, json=body, headers=headers, timeout=60)


class PlacementAdmin:
    """What an operator, a compute or another scheduler does to Placement."""

    def __init__(self, url: str) -> None:
        """Talk to the Placement at a URL."""
        self.url = url
        self._session = requests.Session()

    def call(
        self, method: str, path: str, body: Any = None, *, allowed: Sequence[int] = (), version: str = "1.36"
    ) -> Any:
        """Return the response to a request.

        Raises:
            RuntimeError: It is an error, and none of those that are ``allowed``.
        """
        answer = send(method, f"{self.url}{path}", body, session=self._session, version=version)
        if not answer.ok and answer.status_code not in allowed:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer

    def read(self, path: str) -> Any:
        """Return what a GET answers."""
        return self.call("GET", path).json()

    def edit(self, provider: str, part: str, change: Callable[[Any], Any]) -> bool:
        """Write a part of a provider, and return whether Placement took it: a class in use cannot go."""
        path = f"/resource_providers/{provider}/{part}"
        found = self.read(path)
        body = {"resource_provider_generation": found["resource_provider_generation"]}
        body[part] = change(found[part])
        return bool(self.call("PUT", path, body, allowed=(400, 409)).ok)

    def set_trait(self, provider: str, trait: str, *, has: bool) -> None:
        """Give a trait to a provider, or take it away."""
        self.edit(provider, "traits", lambda now: sorted({*now, trait} if has else {*now} - {trait}))

    def allocate(self, consumer: str, amounts: Mapping[str, Mapping[str, int]]) -> bool:
        """Let a new consumer hold something of providers, and return whether Placement granted it."""
        held = {provider: {"resources": each} for provider, each in amounts.items()}
        owner = {"project_id": "p", "user_id": "u", "consumer_generation": None}
        body = {"allocations": held, **owner}
        return bool(self.call("PUT", f"/allocations/{consumer}", body, allowed=(400, 409)).ok)

    @contextlib.contextmanager
    def trait_on(self, trait: str, providers: Sequence[str]) -> Iterator[None]:
        """Give a trait to providers for a time."""
        for each in providers:
            self.set_trait(each, trait, has=True)
        try:
            yield
        finally:
            for each in providers:
                self.set_trait(each, trait, has=False)

    def fill(self, provider: str, left_mb: int = 1024) -> str:
        """Let a new consumer hold all free memory of a provider but so much; return the consumer."""
        consumer = str(uuid.uuid4())
        path = f"/resource_providers/{provider}"
        memory = self.read(f"{path}/inventories")["inventories"]["MEMORY_MB"]
        used = self.read(f"{path}/usages")["usages"]["MEMORY_MB"]
        amounts = {"MEMORY_MB": memory["total"] - memory["reserved"] - used - left_mb}
        if not self.allocate(consumer, {provider: amounts}):
            raise RuntimeError(f"Provider {provider} has no room for {amounts}")
        return consumer

    def release(self, consumer: str) -> dict[str, Any]:
        """Remove what a consumer holds, as nova does; return what it was, by provider."""
        found = self.read(f"/allocations/{consumer}")
        held: dict[str, Any] = found["allocations"]
        if held:
            names = ("project_id", "user_id", "consumer_generation")
            body = {"allocations": {}, **{name: found[name] for name in names}}
            self.call("PUT", f"/allocations/{consumer}", body, allowed=(409,))
        return held


def empty(database: str | Path) -> None:
    """Remove all providers and allocations from the database of a Placement, which may be running."""
    engine = sa.create_engine(database_url(database), poolclass=sa.NullPool)
    with engine.begin() as connection:
        for table in _OF_CLOUDS:
            connection.execute(sa.text(f"DELETE FROM {table}"))  # noqa: S608 - names of our own


def held(url: str, consumer: str) -> dict[str, dict[str, int]]:
    """Return the amounts that a consumer holds, by provider, of the Placement at a URL."""
    found = send("GET", f"{url}/allocations/{consumer}").json()["allocations"]
    return {provider: each["resources"] for provider, each in found.items()}


def consumers(url: str, providers: Iterable[Provider]) -> set[str]:
    """Return all who hold something of some providers."""
    paths = (f"{url}/resource_providers/{each.uuid}/allocations" for each in providers)
    return {uuid for path in paths for uuid in send("GET", path).json()["allocations"]}


def _sent(session, method, url, body=None) -> None:
    answer = send(method, url, body, session=session)
    if not answer.ok:
        raise RuntimeError(f"{method} {url}: {answer.status_code} {answer.text}")


def fill(database: str | Path, providers: Sequence[Provider]) -> None:
    """Write providers directly into the database of a Placement that has started once.

    For load tests: ten thousand hosts take a few seconds. Traits and classes must be standard ones; a parent
    must be a root of the same call.

    Args:
        database: An SQLite file, or the SQLAlchemy URL of a database.
        providers: What to write.
    """
    engine = sa.create_engine(database_url(database), poolclass=sa.NullPool)
    tables = sa.MetaData()
    tables.reflect(engine, only=_TABLES)
    with engine.begin() as connection:
        _Filling(connection, tables.tables).write(providers)


def database_url(database: str | Path) -> str:
    """Return the SQLAlchemy URL of a database that is given by its URL or as an SQLite file."""
    return str(database) if "://" in str(database) else f"sqlite:///{database}"


class _Filling:
    def __init__(self, connection: sa.Connection, tables: Mapping[str, sa.Table]) -> None:
        self._connection = connection
        self._tables = tables

    def write(self, providers: Sequence[Provider]) -> None:
        ids = self._write_providers(providers)
        traits, classes = self._ids("traits", "name"), self._ids("resource_classes", "name")
        self._insert(
            "resource_provider_traits",
            [
                {"resource_provider_id": ids[provider.uuid], "trait_id": traits[trait]}
                for provider in providers
                for trait in provider.traits
            ],
        )
        self._insert(
            "inventories",
            [
                {
                    "resource_provider_id": ids[provider.uuid],
                    "resource_class_id": classes[name],
                    **INVENTORY,
                    **fields,
                }
                for provider in providers
                for name, fields in provider.inventories.items()
            ],
        )
        self._write_aggregates(providers, ids)

    def _write_providers(self, providers: Sequence[Provider]) -> dict[str, int]:
        # As old as those of a cloud in use: a host that changed lately is read in full before a claim.
        earlier = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=1)
        common = {"generation": 3, "created_at": earlier, "updated_at": earlier}
        rows = [{"uuid": provider.uuid, "name": provider.name, **common} for provider in providers]
        self._insert("resource_providers", rows)
        table = self._tables["resource_providers"]
        lone = table.c.root_provider_id.is_(None) & table.c.parent_provider_id.is_(None)
        self._connection.execute(sa.update(table).where(lone).values(root_provider_id=table.c.id))
        ids = self._ids("resource_providers", "uuid")
        for provider in providers:
            if provider.parent:
                parent = ids[provider.parent]
                child = sa.update(table).where(table.c.uuid == provider.uuid)
                self._connection.execute(child.values(parent_provider_id=parent, root_provider_id=parent))
        return ids

    def _write_aggregates(self, providers: Sequence[Provider], ids: Mapping[str, int]) -> None:
        wanted = {aggregate for provider in providers for aggregate in provider.aggregates}
        missing = sorted(wanted - self._ids("placement_aggregates", "uuid").keys())
        self._insert("placement_aggregates", [{"uuid": aggregate} for aggregate in missing])
        aggregates = self._ids("placement_aggregates", "uuid")
        self._insert(
            "resource_provider_aggregates",
            [
                {"resource_provider_id": ids[provider.uuid], "aggregate_id": aggregates[aggregate]}
                for provider in providers
                for aggregate in provider.aggregates
            ],
        )

    def _ids(self, table: str, key: str) -> dict[str, int]:
        columns = self._tables[table].c
        return dict(self._connection.execute(sa.select(columns[key], columns.id)).all())

    def _insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            self._connection.execute(sa.insert(self._tables[table]), rows)
