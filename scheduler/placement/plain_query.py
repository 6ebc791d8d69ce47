"""Queries that depend on the compute node alone, and why a compute node does not meet one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.placement.providers import MOST_AMOUNT, ProviderState
from scheduler.request.query import Query

CLASSES = ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB")
"""The resource classes that are mirrored: those of compute nodes themselves."""

# A query with any other parameter (suffixed groups, same_subtree, in_tree, group_policy) goes to Placement.
_KNOWN = {"resources", "required", "root_required", "member_of", "limit"}


@dataclass(frozen=True, slots=True)
class PlainQuery:
    """A query that depends on the compute node alone.

    Attributes:
        amounts: Wanted amount by resource class, all of them in ``CLASSES``.
        required: Traits that the compute node must have.
        forbidden: Traits that it must not have.
        member_of: Sets of aggregate uuids; it must be in one of each.
        not_member_of: Aggregates that it must not be in.
    """

    amounts: Mapping[str, int]
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    not_member_of: frozenset[str] = frozenset()

    @property
    def aggregates(self) -> frozenset[str]:
        """All aggregates that it names."""
        return self.not_member_of.union(*self.member_of)

    def traits_suit(self, traits: frozenset[str]) -> bool:
        """Return whether a compute node with these traits meets the query."""
        return self.required <= traits and not self.forbidden & traits

    def aggregates_suit(self, aggregates: frozenset[str]) -> bool:
        """Return whether a compute node in these aggregates meets the query."""
        return not self.not_member_of & aggregates and all(aggregates & any_of for any_of in self.member_of)


def only_plain_query(queries: Sequence[Query]) -> PlainQuery | None:
    """Return what the only one of some queries requires of compute nodes; None if there are several.

    It is None, too, if more than the compute node decides.
    """
    return plain_query(queries[0]) if len(queries) == 1 else None


def plain_query(query: Query) -> PlainQuery | None:
    """Return what a query requires of compute nodes; None if more than the compute node decides.

    The query has one unnumbered group of mirrored classes, memory among them, and no condition on trees. An
    amount that no provider can have is for Placement to refuse.
    """
    amounts: dict[str, int] = {}
    required: set[str] = set()
    forbidden: set[str] = set()
    member_of: list[frozenset[str]] = []
    not_member_of: set[str] = set()
    for name, value in query.params:
        if name not in _KNOWN:
            return None
        if name == "resources":
            pairs = (part.partition(":") for part in value.split(","))
            amounts = {resource: int(amount) for resource, _, amount in pairs}
        elif name in {"required", "root_required"}:
            for trait in value.split(","):
                (forbidden if trait.startswith("!") else required).add(trait.removeprefix("!"))
        elif name == "member_of" and value.startswith("!in:"):
            not_member_of.update(value.removeprefix("!in:").split(","))
        elif name == "member_of":
            member_of.append(frozenset(value.removeprefix("in:").split(",")))
    if "MEMORY_MB" not in amounts or not set(CLASSES) >= amounts.keys():
        return None
    if max(amounts.values()) > MOST_AMOUNT:
        return None
    return PlainQuery(
        amounts, frozenset(required), frozenset(forbidden), tuple(member_of), frozenset(not_member_of)
    )


def mismatch(query: PlainQuery, node: ProviderState) -> str:
    """Return why a compute node does not meet a query, for the log; "" if it meets it."""
    if missing := query.required - node.traits:
        return f"trait {min(missing)} is missing"
    if unwanted := query.forbidden & node.traits:
        return f"it has the forbidden trait {min(unwanted)}"
    if not query.aggregates_suit(node.aggregates):
        return "its aggregates do not suit"
    return next(filter(None, (_lack(node, name, amount) for name, amount in query.amounts.items())), "")


def _lack(node: ProviderState, name: str, amount: int) -> str:
    inventory, used = node.inventories.get(name), node.used.get(name, 0)
    if inventory is None:
        return f"it has no inventory of {name}"
    if not inventory.admits(amount):
        return f"its unit limits do not admit {amount} of {name}"
    return f"{used} of {inventory.capacity} {name} are used" if used + amount > inventory.capacity else ""
