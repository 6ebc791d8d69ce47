"""A dictionary-encoded column: small integers, and the distinct values that they stand for."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from itertools import count
from typing import Any

import numpy as np

from scheduler.hosts.coordinates import Code, Codes

# Up to so many values that no host has are kept: encoding again would cost more than they do.
MAX_UNUSED_VALUES = 64


class EncodedColumn:
    """One value a host, with few distinct values.

    Equal values are expected to be the same object already (see ``rows.Interner``), so that encoding never
    hashes a large value.

    Attributes:
        codes: int32 of shape (hosts,).
        values: The distinct values, by code.
    """

    __slots__ = ("codes", "values")

    def __init__(self, codes: Codes, values: tuple[Any, ...]) -> None:
        self.codes = codes
        self.values = values

    @classmethod
    def of(cls, items: Iterable[Any]) -> "EncodedColumn":
        """Encode one value a host; values are distinct if they are different objects."""
        items = list(items)
        distinct = dict(zip(map(id, items), items, strict=True))
        return cls(cls.of_texts(map(id, items)).codes, tuple(distinct.values()))

    @classmethod
    def of_texts(cls, items: Iterable[Hashable]) -> "EncodedColumn":
        """Encode one short text (or None) a host; values are distinct if they are not equal."""
        numbers: defaultdict[Hashable, int] = defaultdict(count().__next__)
        codes = Codes(np.fromiter(map(numbers.__getitem__, items), np.int32))
        return cls(codes, tuple(numbers))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: int) -> Any:
        return self.values[self.codes[index]]

    def take(self, positions: np.ndarray) -> "EncodedColumn":
        """Return the same column for some of the hosts."""
        return EncodedColumn(Codes(self.codes[positions]), self.values)

    def spread(self, function: Callable[[Any], Any], dtype: Any = bool) -> np.ndarray:
        """Call ``function`` once for each distinct value that a host has.

        Returns:
            The result for each host: ``dtype``, shape (hosts,).
        """
        occurs = np.zeros(len(self.values), dtype=bool)
        occurs[self.codes] = True
        used = np.flatnonzero(occurs)
        results = np.zeros(len(self.values), dtype=dtype)
        values = map(self.values.__getitem__, used.tolist())
        results[used] = np.fromiter(map(function, values), dtype, len(used))
        return results[self.codes]

    def patched(self, positions: np.ndarray, items: Iterable[Any]) -> "EncodedColumn":
        """Return a copy in which some hosts have other values; the other hosts keep their codes.

        All hosts may get other codes if more than half of the values are no longer used.
        """
        code_of_id = {id(value): Code(code) for code, value in enumerate(self.values)}
        items = list(items)
        added = {id(item): item for item in items if id(item) not in code_of_id}
        code_of_id |= {identity: Code(code) for code, identity in enumerate(added, len(self.values))}
        codes = Codes(self.codes.copy())
        codes[positions] = [code_of_id[id(item)] for item in items]
        patched = EncodedColumn(codes, (*self.values, *added.values()))
        used = np.count_nonzero(np.bincount(codes, minlength=len(patched.values)))
        return patched._compacted() if len(patched.values) > 2 * used + MAX_UNUSED_VALUES else patched

    def _compacted(self) -> "EncodedColumn":
        used, codes = np.unique(self.codes, return_inverse=True)
        return EncodedColumn(Codes(codes.astype(np.int32)), tuple(self.values[code] for code in used))

    def replaced(self, index: int, value: Any) -> "EncodedColumn":
        """Return a copy in which one host has another value."""
        codes = Codes(self.codes.copy())
        codes[index] = len(self.values)
        return EncodedColumn(codes, (*self.values, value))
