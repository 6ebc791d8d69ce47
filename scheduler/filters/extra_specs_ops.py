"""The small language in which flavors state what a capability must be (spec: filters-and-weighers 2.1)."""

from collections.abc import Callable, Sequence
import operator

import numpy as np

# ``=`` has always meant "at least".
NUMERIC: dict[str, Callable] = {
    "=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
TEXTUAL: dict[str, Callable] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
    "<in>": operator.contains,
}
ALL_IN = "<all-in>"
OR = "<or>"


def _numeric(compare: Callable) -> Callable[[str, str], bool]:
    return lambda value, operand: compare(float(value), float(operand))


def _all_in(value: str, operands: Sequence[str]) -> bool:
    return all(operand in value for operand in operands)


def _one_of(value: str, *operands: str) -> bool:
    return value in operands


#: operator -> test of a value against an operand (``<all-in>``: a list of them, ``<or>``: several)
op_methods: dict[str, Callable] = {
    **{name: _numeric(compare) for name, compare in NUMERIC.items()},
    **TEXTUAL,
    ALL_IN: _all_in,
    OR: _one_of,
}


class Requirement:
    """A requirement, parsed once. A text that begins with no operator must be equal as a whole."""

    def __init__(self, text: str) -> None:
        self.text = text
        words = text.split()
        self.operator = words[0] if words and words[0] in op_methods else None
        self.operands = words[1:]

    def __str__(self) -> str:
        return self.text

    def holds(self, value: str | None) -> bool:
        """Return whether a text (None: no value) is as required.

        Raises:
            ValueError: Numbers are compared, and a text is no number.
        """
        if value is None:
            return False
        if self.operator is None:
            return value == self.text
        if not self.operands:
            return False
        if self.operator == OR:
            # words at even places separate the alternatives, whatever they are
            return _one_of(value, *self.operands[::2])
        if self.operator == ALL_IN:
            return _all_in(value, self.operands)
        return op_methods[self.operator](value, self.operands[0])

    def hold(self, values: np.ndarray) -> np.ndarray | None:
        """Return ``holds`` for many numbers at once: bool, shape (hosts,).

        None if the numbers must be compared as texts.
        """
        if self.operator not in NUMERIC or not self.operands:
            return None
        return NUMERIC[self.operator](values, float(self.operands[0]))


def match(value: str | None, req: str) -> bool:
    """Return whether ``value`` is as ``req`` requires; raises as ``Requirement.holds``."""
    return Requirement(req).holds(value)
