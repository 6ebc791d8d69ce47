"""What keeps Placement from offering one host: its query is sent again for this host alone, relaxed."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl

from scheduler.decisions.constraint_names import RequestNames
from scheduler.decisions.providers import PlacementQuestions
from scheduler.decisions.refusals import Stock, refusals
from scheduler.decisions.relaxation import Constraint, ConstraintKind, RelaxationSearch, constraints_of

#: Constraints that the host table cannot judge.
OF_PROVIDERS = frozenset({ConstraintKind.AMOUNT, ConstraintKind.TRAIT})


class Obstacle(NamedTuple):
    """Constraints without which a host would be offered, in words, and what they are about."""

    text: str
    kinds: frozenset[ConstraintKind]


class Obstacles:
    """Finds out what keeps Placement from offering single hosts."""

    def __init__(self, questions: PlacementQuestions) -> None:
        self._questions = questions
        self._relaxations = RelaxationSearch(questions)

    def find(
        self, querystring: str, names: RequestNames, uuid: str, *, is_explained: bool
    ) -> Iterator[Obstacle]:
        """Yield the obstacles of a host. Any one of them has to be overcome, with all that it names.

        Args:
            querystring: A query for this host alone, for which Placement has offered nothing.
            is_explained: Whether the table shows an obstacle, so that only amounts and traits are named.

        Raises:
            PlacementError: Placement gave no answer.
        """
        relaxed = self._relaxations.find(querystring, names, kept={ConstraintKind.HOST})
        for each in relaxed:
            constraints = [
                (text, ConstraintKind(kind)) for text, kind in zip(each.without, each.kinds, strict=True)
            ]
            named = [one for one in constraints if not is_explained or one[1] in OF_PROVIDERS]
            if named:
                yield _obstacle(named, each.limits)
            elif not constraints:
                yield Obstacle("it is offered when the query is sent again", frozenset())
        if not relaxed:
            yield from self._amounts(constraints_of(tuple(parse_qsl(querystring)), names), uuid)

    def _amounts(self, constraints: list[Constraint], uuid: str) -> Iterator[Obstacle]:
        """Yield the amounts for which a host has no room: more than two, which no relaxation finds."""
        provider = self._questions.provider(uuid)
        for each in constraints if provider else ():
            if provider and (name := each.resource_class):
                inventory, amount = provider.inventories.get(name), int(each.value.partition(":")[2])
                stocks = [Stock(inventory, provider.used.get(name, 0))] if inventory else []
                if not any(stock.has_room(amount) for stock in stocks):
                    yield _obstacle([(each.text, each.kind)], list(refusals(name, amount, [stocks])))


def _obstacle(constraints: Sequence[tuple[str, ConstraintKind]], limits: Sequence[str]) -> Obstacle:
    names = " and ".join(text for text, _ in constraints)
    words = f" ({', '.join(limits)})" if limits else ""
    return Obstacle(f"not with {names}{words}", frozenset(kind for _, kind in constraints))
