"""The set of constraints that each host fails, by arrays.

``FailedConstraints`` keeps one mask of hosts for each constraint. ``why`` counts the hosts of each distinct
set of constraints as one ``Failing``; a set of one has the hosts that lack only this constraint.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.decisions.document import Constraint, Failing, Reason, Why

#: Sets of several constraints that are kept, and hosts that are named of each set.
MOST_SETS = 10
NAMED = 20

#: Reasons that are kept of one constraint.
MOST_REASONS = 4

#: Masks after which the codes of hosts are made small again: they are bits of an integer.
_FOLDED = 40


Explain = Callable[[np.ndarray], Sequence[Reason]]
"""Returns why some hosts, by their positions, fail a constraint."""


class _Entry(NamedTuple):
    """A constraint, which hosts fail it, and what explains some of them; of sources the first one counts."""

    constraint: Constraint
    mask: np.ndarray
    sources: tuple[tuple[np.ndarray, "Explain"], ...] = ()

    def explain(self, positions: np.ndarray) -> list[Reason]:
        """Return why some hosts fail the constraint, the reason of most hosts first."""
        reasons: dict[str, list[Reason]] = {}
        for mask, explain in self.sources:
            covered = mask[positions]
            for reason in explain(positions[covered]) if covered.any() else ():
                reasons.setdefault(reason.text, []).append(reason)
            positions = positions[~covered]
        return sorted(map(_together, reasons.values()), key=lambda reason: -reason.hosts)


def _together(reasons: Sequence[Reason]) -> Reason:
    """Return one reason for equal ones; the number of hosts is 0, for unknown, if it is so of one."""
    complete = all(reason.hosts for reason in reasons)
    hosts = sum(reason.hosts for reason in reasons) if complete else 0
    most = max((reason.most for reason in reasons if reason.most is not None), default=None)
    return Reason(reasons[0].text, hosts, reasons[0].limit, most)


def _entry(constraint: Constraint, mask: np.ndarray, explain: Explain | None) -> _Entry:
    return _Entry(constraint, mask, ((mask, explain),) if explain else ())


class FailedConstraints:
    """The constraints that each of some hosts fails."""

    def __init__(self, hosts: int) -> None:
        self._hosts = hosts
        self._entries: dict[str, _Entry] = {}
        self._others: dict[str, _Entry] = {}

    def add_alternative(
        self, constraint: Constraint, mask: np.ndarray, explain: Explain | None = None
    ) -> None:
        """Note hosts that would suit without another constraint than the one that they fail, too.

        Two constraints may exclude a host together only, as a zone and a disk of a pool outside of the zone.
        """
        if mask.any():
            self._others[constraint.text] = _entry(constraint, mask, explain)

    def add(self, constraint: Constraint, mask: np.ndarray, explain: Explain | None = None) -> None:
        """Note which hosts fail a constraint, besides those that fail it already; bool, shape (hosts,)."""
        self._add(_entry(constraint, mask, explain))

    def _add(self, entry: _Entry) -> None:
        text = entry.constraint.text
        if (before := self._entries.get(text)) is not None:
            entry = _Entry(entry.constraint, entry.mask | before.mask, (*before.sources, *entry.sources))
        if entry.mask.any():
            self._entries[text] = entry

    def failed(self, text: str) -> np.ndarray:
        """Return which hosts fail the constraint of this name."""
        entry = self._entries.get(text)
        return np.zeros(self._hosts, bool) if entry is None else entry.mask

    def counts(self) -> np.ndarray:
        """Return how many constraints each host fails."""
        total = np.zeros(self._hosts, np.int64)
        for entry in self._entries.values():
            total += entry.mask
        return total

    def or_easier(self, other: "FailedConstraints") -> "FailedConstraints":
        """Return what each host fails of another query if that is less, otherwise of this one."""
        use = other.counts() < self.counts()
        return self.among(~use).with_all(other.among(use))

    def among(self, hosts: np.ndarray) -> "FailedConstraints":
        """Return the same for some hosts; the others fail nothing; bool, shape (hosts,)."""
        kept = FailedConstraints(self._hosts)
        for constraint, mask, sources in self._entries.values():
            of_hosts = tuple((explained & hosts, explain) for explained, explain in sources)
            kept._add(_Entry(constraint, mask & hosts, of_hosts))
        return kept

    def with_all(self, other: "FailedConstraints") -> "FailedConstraints":
        """Return what hosts fail of both."""
        both = FailedConstraints(self._hosts)
        for entry in (*self._entries.values(), *other._entries.values()):  # noqa: SLF001 - of the same class
            both._add(entry)
        both._others = self._others | other._others  # noqa: SLF001
        return both

    def of(self, position: int) -> list[tuple[Constraint, Sequence[Reason]]]:
        """Return what one host fails, with the reasons."""
        at = np.array([position])
        return [
            (entry.constraint, entry.explain(at)) for entry in self._entries.values() if entry.mask[position]
        ]

    def why(
        self, name: Callable[[int], str], cut: Mapping[str, bool] | None = None
    ) -> tuple[Why, np.ndarray]:
        """Return the sets of failed constraints, and the index of that of each host: int64, shape (hosts,).

        The index is -1 for hosts that fail nothing, or one of the sets that are not kept.

        Args:
            name: Returns the name of a host by its position.
            cut: Constraints by name for which there may be more hosts that fail them alone.
        """
        entries, found = self._with_alternatives()
        why = Why(self._hosts, constraints=[entry.constraint for entry in entries])
        sets, several = np.full(self._hosts, -1), 0
        for numbers, (own, others) in sorted(
            found.items(), key=lambda item: (len(item[0]), -sum(map(len, item[1])), item[0])
        ):
            several += len(numbers) > 1
            if not numbers:
                why.suitable = len(own)
            elif several <= MOST_SETS:
                sets[own] = len(why.failing)
                positions = np.concatenate((own, others))
                names = [name(int(at)) for at in positions[:NAMED]]
                reasons = [entries[number].explain(positions)[:MOST_REASONS] for number in numbers]
                is_cut = len(numbers) == 1 and bool(cut and cut.get(entries[numbers[0]].constraint.text))
                why.failing.append(Failing(list(numbers), len(positions), names, reasons, is_cut))
        return why, sets

    def _with_alternatives(self) -> tuple[list[_Entry], dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]]]:
        """Return the constraints, and for each set of them the hosts that fail it, and alternatives."""
        entries, alone = dict(self._entries), self.counts() == 1
        found = {numbers: (positions, positions[:0]) for numbers, positions in self._sets()}
        for text, other in self._others.items():
            others = np.flatnonzero(other.mask & alone & ~self.failed(text))
            if len(others):
                before = entries.get(text, other._replace(sources=()))
                entries[text] = before._replace(sources=(*before.sources, *other.sources))
                numbers = (list(entries).index(text),)
                found[numbers] = found.get(numbers, (others[:0], others))[0], others
        return list(entries.values()), found

    def _sets(self) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
        """Yield each distinct set of failed constraints with the positions of its hosts."""
        if not self._hosts:
            return
        masks = [entry.mask for entry in self._entries.values()]
        codes = np.zeros(self._hosts, np.int64)
        for number, mask in enumerate(masks):
            codes = codes * 2 + mask
            if number % _FOLDED == _FOLDED - 1:
                codes = np.unique(codes, return_inverse=True)[1]
        _, firsts, which, counts = np.unique(
            codes, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(which, kind="stable")
        for first, positions in zip(firsts, np.split(order, np.cumsum(counts)[:-1]), strict=True):
            yield tuple(number for number, mask in enumerate(masks) if mask[first]), positions
