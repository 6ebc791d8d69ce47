"""What keeps Placement from offering one host: its query is asked again for this host alone, relaxed."""

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import parse_qsl

from scheduler.explain.providers import Providers
from scheduler.explain.refusals import refusals
from scheduler.explain.relaxation import (
    Constraint,
    ConstraintKind,
    ConstraintNames,
    RelaxationSearch,
    constraints_of,
)

#: Constraints that the host table cannot judge.
OF_PROVIDERS = frozenset({ConstraintKind.AMOUNT, ConstraintKind.TRAIT})


class Obstacle(NamedTuple):
    """Constraints without which a host would be offered, in words, and what they are about."""

    text: str
    kinds: frozenset[ConstraintKind]


class Obstacles:
    """Finds out what keeps Placement from offering single hosts."""

    def __init__(self, relaxations: RelaxationSearch, providers: Providers) -> None:
        """Ask with a search for relaxations, and with what reads resource providers."""
        self._relaxations = relaxations
        self._providers = providers

    def find(
        self, querystring: str, names: ConstraintNames, uuid: str, *, is_explained: bool
    ) -> Iterator[Obstacle]:
        """Yield the obstacles of a host. Any one of them has to be overcome, with all that it names.

        Args:
            querystring: A query for this host alone, for which Placement has offered nothing.
            is_explained: Whether the table tells of an obstacle, so that only amounts and traits are named.

        Raises:
            PlacementError: Placement gave no answer.
        """
        relaxed = self._relaxations.find(querystring, names, kept={ConstraintKind.HOST})
        for each in relaxed:
            named = [one for one in each.constraints if not is_explained or one.kind in OF_PROVIDERS]
            if named:
                yield _obstacle(named, each.limits)
            elif not each.constraints:
                yield Obstacle("it is offered when Placement is asked again", frozenset())
        if not relaxed:
            yield from self._amounts(constraints_of(tuple(parse_qsl(querystring)), names), uuid)

    def _amounts(self, constraints: list[Constraint], uuid: str) -> Iterator[Obstacle]:
        """Yield the amounts for which a host has no room: more than two, which no relaxation tells."""
        provider = self._providers.provider(uuid)
        for each in constraints if provider else ():
            if provider and each.resource_class:
                stocks, amount = provider.stocks(each.resource_class), int(each.value.partition(":")[2])
                if not any(stock.has_room(amount) for stock in stocks):
                    yield _obstacle([each], tuple(refusals(each.resource_class, amount, [stocks])))


def _obstacle(constraints: list[Constraint], limits: tuple[str, ...]) -> Obstacle:
    names = " and ".join(each.text for each in constraints)
    words = f" ({', '.join(limits)})" if limits else ""
    return Obstacle(f"not with {names}{words}", frozenset(each.kind for each in constraints))
