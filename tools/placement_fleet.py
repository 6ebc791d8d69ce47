"""Create providers in Placement, over HTTP (``create_fleet``) or directly in its SQLite file (``fill``).

The provider of a compute host has the UUID of its ComputeNode record. A sharing provider has the trait
``MISC_SHARES_VIA_AGGREGATE`` and an aggregate in common with the providers that use it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
import sqlite3
import uuid

import requests

HEADERS = {"X-Auth-Token": "admin", "X-Roles": "admin,service", "OpenStack-API-Version": "placement 1.36"}
INVENTORY = {
    "reserved": 0,
    "min_unit": 1,
    "max_unit": 2147483647,
    "step_size": 1,
    "allocation_ratio": 1.0,
}
HOST_INVENTORIES = {
    "VCPU": {"total": 64, "allocation_ratio": 4.0, "max_unit": 64},
    "MEMORY_MB": {"total": 524288, "reserved": 512},
    "DISK_GB": {"total": 4000},
}
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
    with requests.Session() as session:
        session.headers.update(HEADERS)
        _names(session, url, providers)
        for provider in providers:
            _create(session, url, provider)


def _names(session, url, providers) -> None:
    traits = {trait for provider in providers for trait in provider.traits}
    classes = {name for provider in providers for name in provider.inventories}
    for kind, names in (("traits", traits), ("resource_classes", classes)):
        for name in sorted(names):
            if name.startswith("CUSTOM_"):
                _send(session, "PUT", f"{url}/{kind}/{name}")


def _create(session, url, provider) -> None:
    body = {"name": provider.name, "uuid": provider.uuid}
    if provider.parent:
        body["parent_provider_uuid"] = provider.parent
    _send(session, "POST", f"{url}/resource_providers", body)
    parts = (
        ("inventories", provider.inventories),
        ("traits", list(provider.traits)),
        ("aggregates", list(provider.aggregates)),
    )
    generation = 0
    for name, value in parts:
        if value:
            body = {"resource_provider_generation": generation, name: value}
            _send(session, "PUT", f"{url}/resource_providers/{provider.uuid}/{name}", body)
            generation += 1


def _send(session, method, url, body=None) -> None:
    answer = session.request(method, url, json=body, timeout=30)
    if not answer.ok:
        raise RuntimeError(f"{method} {url}: {answer.status_code} {answer.text}")


def fill(path: str | Path, providers: Sequence[Provider]) -> None:
    """Write root providers directly into the SQLite file of a Placement that has started once and has ended.

    For load tests: ten thousand hosts take a few seconds. Traits and classes must be standard ones; parents
    are not supported.
    """
    connection = sqlite3.connect(path)
    with connection:
        traits = dict(connection.execute("SELECT name, id FROM traits"))
        classes = dict(connection.execute("SELECT name, id FROM resource_classes"))
        (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM resource_providers").fetchone()
        numbered = list(enumerate(providers, last + 1))
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        connection.executemany(
            "INSERT INTO resource_providers"
            " (id, uuid, name, generation, root_provider_id, created_at, updated_at)"
            " VALUES (?, ?, ?, 3, ?, ?, ?)",
            [(number, provider.uuid, provider.name, number, now, now) for number, provider in numbered],
        )
        connection.executemany(
            "INSERT INTO resource_provider_traits (resource_provider_id, trait_id) VALUES (?, ?)",
            [(number, traits[trait]) for number, provider in numbered for trait in provider.traits],
        )
        _insert_inventories(connection, numbered, classes)
        _insert_aggregates(connection, numbered)
    connection.close()


def _insert_inventories(connection, numbered, classes) -> None:
    columns = ("total", *INVENTORY)
    rows = [
        (number, classes[name], *({**INVENTORY, **fields}[column] for column in columns))
        for number, provider in numbered
        for name, fields in provider.inventories.items()
    ]
    connection.executemany(
        f"INSERT INTO inventories (resource_provider_id, resource_class_id, {', '.join(columns)})"  # noqa: S608
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def _insert_aggregates(connection, numbered) -> None:
    wanted = sorted({aggregate for _, provider in numbered for aggregate in provider.aggregates})
    for aggregate in wanted:
        connection.execute("INSERT OR IGNORE INTO placement_aggregates (uuid) VALUES (?)", (aggregate,))
    ids = dict(connection.execute("SELECT uuid, id FROM placement_aggregates"))
    connection.executemany(
        "INSERT INTO resource_provider_aggregates (resource_provider_id, aggregate_id) VALUES (?, ?)",
        [(number, ids[aggregate]) for number, provider in numbered for aggregate in provider.aggregates],
    )
