"""The parts of a resource request: groups with and without a suffix (spec: placement-and-workflow 1.2)."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

UNSUFFIXED = ""

Pair = tuple[str, str]


def traits_text(required: Collection[str], forbidden: Collection[str]) -> str:
    """Return the required traits in order, then forbidden ones in order with a ``!`` before each."""
    return ",".join([*sorted(required), *(f"!{trait}" for trait in sorted(forbidden))])


@dataclass(slots=True)
class Group:
    """Resources and traits of one request group.

    ``member_of`` is a list of any-of sets of aggregate UUIDs; all sets must be met; ``not_member_of``
    names aggregates to stay out of. While the request is put together an amount may be 0: that suppresses a
    default.
    """

    resources: dict[str, int] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    forbidden: set[str] = field(default_factory=set)
    member_of: list[Collection[str]] = field(default_factory=list)
    not_member_of: set[str] = field(default_factory=set)
    in_tree: str | None = None

    @classmethod
    def of_wire(cls, group) -> "Group":
        """Return the group that a wire RequestGroup describes."""
        return cls(
            resources=dict(group.resources),
            required=set(group.required_traits),
            forbidden=set(group.forbidden_traits),
            member_of=[frozenset(any_of) for any_of in group.aggregates],
            not_member_of=set(group.forbidden_aggregates),
            in_tree=group.in_tree,
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing is requested; a tree alone does not make a request."""
        return not (self.resources or self.required or self.forbidden or self.member_of or self.not_member_of)

    def pairs(self, suffix: str) -> Iterator[Pair]:
        """Query parameters of the group. ``resources`` is there even when it is empty, as nova has it."""
        yield f"resources{suffix}", ",".join(sorted(f"{name}:{n}" for name, n in self.resources.items()))
        if self.required or self.forbidden:
            yield f"required{suffix}", traits_text(self.required, self.forbidden)
        for any_of in self.member_of:
            yield f"member_of{suffix}", f"in:{','.join(sorted(any_of))}"
        if self.not_member_of:
            yield f"member_of{suffix}", f"!in:{','.join(sorted(self.not_member_of))}"
        if self.in_tree:
            yield f"in_tree{suffix}", self.in_tree


@dataclass(slots=True)
class ResourceRequest:
    """All groups of one request, and what holds for the request as a whole.

    ``flavor_suffixes`` is how many suffixed groups the flavor's extra specs made; ``pinned`` says that CPUs
    were translated for the policy ``dedicated``, so that a fallback query is due.
    """

    groups: dict[str, Group] = field(default_factory=dict)
    group_policy: str | None = None
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    same_subtree: tuple[frozenset[str], ...] = ()
    flavor_suffixes: int = 0
    pinned: bool = False

    def group(self, suffix: str = UNSUFFIXED) -> Group:
        """Return the group of a suffix, made on demand."""
        group = self.groups.get(suffix)
        if group is None:
            group = self.groups[suffix] = Group()
        return group

    def count_suffixed(self) -> int:
        return sum(1 for suffix in self.groups if suffix != UNSUFFIXED)

    def mentions(self, resource_class: str) -> bool:
        """Return whether some group names the class, also with amount 0."""
        return any(resource_class in group.resources for group in self.groups.values())

    def required_traits(self) -> set[str]:
        """Traits that any group requires; those of the root are not among them."""
        return set().union(*(group.required for group in self.groups.values()))

    def prune(self) -> None:
        """Drop amounts of 0, and then groups without a request."""
        for group in self.groups.values():
            group.resources = {name: amount for name, amount in group.resources.items() if amount}
        self.groups = {suffix: group for suffix, group in self.groups.items() if not group.is_empty}

    def pairs(self) -> Iterator[Pair]:
        """Query parameters of everything but the limit, in no particular order."""
        if self.group_policy is not None:
            yield "group_policy", self.group_policy
        if self.root_required or self.root_forbidden:
            yield "root_required", traits_text(self.root_required, self.root_forbidden)
        for suffixes in self.same_subtree:
            yield "same_subtree", ",".join(sorted(suffixes))
        for suffix, group in self.groups.items():
            yield from group.pairs(suffix)
