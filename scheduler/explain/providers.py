"""What Placement has of a single resource provider."""

from typing import Protocol

import msgspec

from scheduler.explain.refusals import Inventory, Stock


class Provider(msgspec.Struct):
    """The resource provider of a compute node.

    Attributes:
        inventories: By resource class.
        usages: What is allocated, by resource class.
        traits: Their names.
        aggregates: Their UUIDs.
    """

    inventories: dict[str, Inventory] = msgspec.field(default_factory=dict)
    usages: dict[str, int] = msgspec.field(default_factory=dict)
    traits: list[str] = msgspec.field(default_factory=list)
    aggregates: list[str] = msgspec.field(default_factory=list)

    def used(self, resource_class: str) -> int:
        """Return how much of a class is allocated."""
        return self.usages.get(resource_class, 0)

    def stocks(self, resource_class: str) -> list[Stock]:
        """Return what there is of a class: one stock, or none."""
        inventory = self.inventories.get(resource_class)
        return [Stock(inventory, self.used(resource_class))] if inventory else []


class Providers(Protocol):
    """Reads resource providers from Placement; raises PlacementError if it gives no answer."""

    def provider(self, uuid: str) -> Provider | None:
        """Return a resource provider; None if there is none."""
