"""Long lists in pieces that one SQL statement can name."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")

# Well below what any of the databases takes, and few enough for their planners to use the index.
CHUNK = 500


def chunks(items: Iterable[Item], size: int = CHUNK) -> Iterator[list[Item]]:
    """The items in order, in lists of at most ``size``."""
    rest = iter(items)
    while piece := list(islice(rest, size)):
        yield piece
