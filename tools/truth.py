"""Compare the allocations in Placement with the expected allocations."""

from collections.abc import Iterable, Mapping
import dataclasses

import requests

from tools.placement_fleet import HEADERS, Provider


@dataclasses.dataclass
class Truth:
    """The result of a comparison: counts, and one line for each problem."""

    consumers: int = 0
    resources: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)


def check(
    url: str, providers: Iterable[Provider], expected: Mapping[str, tuple[str, Mapping[str, int]]]
) -> Truth:
    """Compare all allocations on the providers with ``expected``: instance UUID -> (provider UUID, amounts).

    A problem is an over-committed inventory, an instance without its allocation or with a wrong one, or an
    allocation that belongs to no instance.
    """
    truth, held = Truth(), {}
    with requests.Session() as session:
        session.headers.update(HEADERS)
        for provider in providers:
            inventories = _get(
                session, f"{url}/resource_providers/{provider.uuid}/inventories", "inventories"
            )
            allocations = _get(
                session, f"{url}/resource_providers/{provider.uuid}/allocations", "allocations"
            )
            truth.resources += len(inventories)
            truth.problems += _overcommitted(provider, inventories, allocations)
            for consumer, allocation in allocations.items():
                held.setdefault(consumer, {})[provider.uuid] = allocation["resources"]
    truth.consumers = len(held)
    truth.problems += _differences(held, expected)
    return truth


def _get(session, url, key):
    answer = session.get(url, timeout=30)
    answer.raise_for_status()
    return answer.json()[key]


def _overcommitted(provider, inventories, allocations):
    for name, inventory in inventories.items():
        capacity = int((inventory["total"] - inventory["reserved"]) * inventory["allocation_ratio"])
        used = sum(allocation["resources"].get(name, 0) for allocation in allocations.values())
        if used > capacity:
            yield f"{provider.name} is over-committed: {used} of {capacity} {name}"


def _differences(held, expected):
    for instance, (provider, amounts) in expected.items():
        found = held.pop(instance, {})
        if found != {provider: dict(amounts)}:
            yield f"Instance {instance} should hold {dict(amounts)} on {provider}, but holds {found}"
    for consumer, found in held.items():
        yield f"Left over: {consumer} holds {found}"
