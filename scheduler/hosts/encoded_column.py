"""A dictionary-encoded column: small integers, and the distinct values that they stand for."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from itertools import count
from typing import Any

import numpy as np

# So few values without a host are never worth the trouble.
SPARE = 64


class EncodedColumn:
    """One value a host, of which few are distinct.

    ``codes`` is an int32 array of shape (hosts,); ``values`` a tuple of the distinct values. Equal values are
    expected to be the same object already (see ``interning``), so that encoding never hashes a large value.
    """

    __slots__ = ("codes", "values")

    def __init__(self, codes: np.ndarray, values: tuple) -> None:
        self.codes = codes
        self.values = values

    @classmethod
    def of(cls, items: Iterable[Any]) -> "EncodedColumn":
        """Encode one value a host, telling them apart by identity."""
        items = list(items)
        distinct = dict(zip(map(id, items), items, strict=True))
        return cls(cls.of_texts(map(id, items)).codes, tuple(distinct.values()))

    @classmethod
    def of_texts(cls, items: Iterable[Hashable]) -> "EncodedColumn":
        """Encode one short text (or None) a host, telling them apart by equality."""
        numbers = defaultdict(count().__next__)
        codes = np.fromiter(map(numbers.__getitem__, items), np.int32)
        return cls(codes, tuple(numbers))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: int) -> Any:
        return self.values[self.codes[index]]

    def take(self, positions: np.ndarray) -> "EncodedColumn":
        """The same column for some of the hosts."""
        return EncodedColumn(self.codes[positions], self.values)

    def spread(self, function: Callable[[Any], Any], dtype: Any = bool) -> np.ndarray:
        """Ask ``function`` once per distinct value that occurs; the answers as an array of shape (hosts,)."""
        occurs = np.zeros(len(self.values), dtype=bool)
        occurs[self.codes] = True
        asked = np.flatnonzero(occurs)
        answers = np.zeros(len(self.values), dtype=dtype)
        values = map(self.values.__getitem__, asked.tolist())
        answers[asked] = np.fromiter(map(function, values), dtype, len(asked))
        return answers[self.codes]

    def patched(self, positions: np.ndarray, items: Iterable[Any]) -> "EncodedColumn":
        """A copy in which some hosts have other values; the values of all others keep their codes.

        Values that no host has any more are dropped when they are as many as the others.
        """
        numbers = {id(value): code for code, value in enumerate(self.values)}
        items = list(items)
        added = {id(item): item for item in items if id(item) not in numbers}
        numbers |= {identity: code for code, identity in enumerate(added, len(self.values))}
        codes = self.codes.copy()
        codes[positions] = [numbers[id(item)] for item in items]
        patched = EncodedColumn(codes, (*self.values, *added.values()))
        used = np.count_nonzero(np.bincount(codes, minlength=len(patched.values)))
        return patched._swept() if len(patched.values) > 2 * used + SPARE else patched

    def _swept(self) -> "EncodedColumn":
        used, codes = np.unique(self.codes, return_inverse=True)
        return EncodedColumn(codes.astype(np.int32), tuple(self.values[code] for code in used))

    def replaced(self, index: int, value: Any) -> "EncodedColumn":
        """A copy in which one host has another value."""
        codes = self.codes.copy()
        codes[index] = len(self.values)
        return EncodedColumn(codes, (*self.values, value))
