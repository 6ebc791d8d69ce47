"""Compare the allocations in Placement with the expected allocations."""

from collections.abc import Collection, Iterable, Iterator, Mapping
import dataclasses
from typing import Any

import requests
import sqlalchemy as sa

from tools.rig.providers import HEADERS, Provider

Amounts = Mapping[str, int]

#: All allocations, in the order in which they were written.
_ALLOCATIONS = sa.text(
    "SELECT p.uuid, p.name, a.consumer_id, c.name, a.used FROM allocations a"
    " JOIN resource_providers p ON p.id = a.resource_provider_id"
    " JOIN resource_classes c ON c.id = a.resource_class_id ORDER BY a.id"
)
_INVENTORIES = sa.text(
    "SELECT p.uuid, c.name, i.total, i.reserved, i.allocation_ratio FROM inventories i"
    " JOIN resource_providers p ON p.id = i.resource_provider_id"
    " JOIN resource_classes c ON c.id = i.resource_class_id"
)


@dataclasses.dataclass
class Truth:
    """The result of a comparison: counts, and one line for each problem.

    Attributes:
        consumers: Number of consumers that hold something.
        resources: Number of inventories that were compared.
        problems: What is wrong.
        wrong: Number of expected consumers that do not hold what they should.
        left_over: Number of consumers that should hold nothing.
        overcommitted: For each over-committed provider its UUID and its consumers, in the order of their
            writes where that is known.
    """

    consumers: int = 0
    resources: int = 0
    wrong: int = 0
    left_over: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)
    overcommitted: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    def compare(
        self,
        provider: tuple[str, str],
        inventories: Mapping[str, Mapping[str, Any]],
        allocations: Mapping[str, Amounts],
    ) -> None:
        """Compare what the consumers of one provider (UUID, name) hold with its inventories."""
        self.resources += len(inventories)
        found = list(_overcommitted(provider[1], inventories, allocations))
        self.problems += found
        if found:
            self.overcommitted[provider[0]] = list(allocations)

    def compare_consumers(
        self,
        held: Mapping[str, Mapping[str, Amounts]],
        expected: Mapping[str, tuple[str, Amounts]],
        unknown: Collection[str] = (),
    ) -> None:
        """Compare what consumers hold (UUID -> provider UUID -> amounts) with what they should hold."""
        self.consumers = len(held)
        for instance, (provider, amounts) in expected.items():
            found = held.get(instance, {})
            if found != {provider: dict(amounts)}:
                self.wrong += 1
                self.problems.append(
                    f"Instance {instance} should hold {dict(amounts)} on {provider}, but holds {found}"
                )
        for consumer in (held.keys() - expected.keys()).difference(unknown):
            self.left_over += 1
            self.problems.append(f"Left over: {consumer} holds {held[consumer]}")


def check(
    url: str,
    providers: Iterable[Provider],
    expected: Mapping[str, tuple[str, Amounts]],
    unknown: Collection[str] = (),
) -> Truth:
    """Compare all allocations on the providers with ``expected``: instance UUID -> (provider UUID, amounts).

    A problem is an over-committed inventory, an instance without its allocation or with a wrong one, or an
    allocation that belongs to no instance. The ``unknown`` consumers may hold anything or nothing.
    """
    truth = Truth()
    held: dict[str, dict[str, Amounts]] = {}
    with requests.Session() as session:
        session.headers.update(HEADERS)
        for provider in providers:
            base = f"{url}/resource_providers/{provider.uuid}"
            inventories = _get(session, f"{base}/inventories", "inventories")
            found = _get(session, f"{base}/allocations", "allocations")
            allocations = {consumer: each["resources"] for consumer, each in found.items()}
            truth.compare((provider.uuid, provider.name), inventories, allocations)
            for consumer, amounts in allocations.items():
                held.setdefault(consumer, {})[provider.uuid] = amounts
    truth.compare_consumers(held, expected, unknown)
    return truth


def check_database(
    engine: sa.Engine,
    expected: Mapping[str, tuple[str, Amounts]] | None = None,
    unknown: Collection[str] = (),
) -> Truth:
    """Compare as ``check`` does, in Placement's database: fast for large fleets, and one consistent view.

    Args:
        engine: An engine of Placement's database.
        expected: Instance UUID -> (provider UUID, amounts); None: look for over-committed inventories only.
        unknown: Consumers that may hold anything or nothing.
    """
    truth = Truth()
    held: dict[str, dict[str, dict[str, int]]] = {}
    by_provider: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
    # In one statement of the allocations is one view; inventories do not change.
    with engine.connect() as connection:
        for uuid, name, consumer, resource_class, used in connection.execute(_ALLOCATIONS):
            amounts = held.setdefault(consumer, {}).setdefault(uuid, {})
            amounts[resource_class] = used
            by_provider.setdefault((uuid, name), {})[consumer] = amounts
        inventories = _inventories_of(connection)
    for provider, allocations in by_provider.items():
        truth.compare(provider, inventories.get(provider[0], {}), allocations)
    truth.consumers = len(held)
    if expected is not None:
        truth.compare_consumers(held, expected, unknown)
    return truth


def _inventories_of(connection: sa.Connection) -> dict[str, dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for uuid, name, total, reserved, ratio in connection.execute(_INVENTORIES):
        fields = {"total": total, "reserved": reserved, "allocation_ratio": ratio}
        found.setdefault(uuid, {})[name] = fields
    return found


def _get(session: requests.Session, url: str, key: str) -> Any:
    answer = session.get(url, timeout=30)
    answer.raise_for_status()
    return answer.json()[key]


def _overcommitted(
    name: str, inventories: Mapping[str, Mapping[str, Any]], allocations: Mapping[str, Amounts]
) -> Iterator[str]:
    for resource_class, inventory in inventories.items():
        capacity = int((inventory["total"] - inventory["reserved"]) * inventory["allocation_ratio"])
        used = sum(amounts.get(resource_class, 0) for amounts in allocations.values())
        if used > capacity:
            yield f"{name} is over-committed: {used} of {capacity} {resource_class}"
