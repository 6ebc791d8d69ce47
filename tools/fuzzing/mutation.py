"""Mutations of JSON values: of their structure, of their leaves, and of what is special to nova's messages.

All choices come from one random number generator, so a seed and a corpus give the same mutations.
"""

from collections.abc import Callable, Sequence
import marshal
import math
import random
from typing import Any

from scheduler.objects import base

Json = Any
Path = tuple[str | int, ...]
Container = dict[str, Json] | list[Json]

#: Stands for a password. It must not reach a log line or a caller.
SECRET = "c0ffee-SECRET-c0ffee"  # noqa: S105
#: A decoder of JSON refuses what is nested deeper.
MOST_DEPTH = 900
#: Characters of the largest texts, which are rare: they take time.
LARGE_TEXT = 4 << 20
#: Bytes up to which a list is repeated: a broker takes no message of more than 16 MiB by default.
MOST_REPEATED = 16 << 20

NUMBERS: Sequence[Json] = (
    *(0, -1, 1, 2, 255, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**400),
    *(0.5, -0.0, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf),
    *(True, False),
)
TEXTS: Sequence[str] = (
    *(
        "",
        " ",
        "0",
        "-1",
        "1e400",
        "nan",
        "inf",
        "9" * 30,
        "9" * 5000,
        "0x10",
        "1_000",
        "\u0663",
        "None",
        "null",
    ),
    *(
        "true",
        "yes",
        "a\nb",
        "a\r\nERROR forged line",
        "\x00",
        "\x1b[31m",
        "\u2028",
        "\ud800",
        "x\udfff",
        "\u202e",
    ),
    *(
        "%s%n%d",
        "{0.__class__}",
        "$free_ram_mb",
        "$instances.x",
        "<in> ",
        "<or> ",
        "s== ",
        ">= ",
        "<all-in> a",
    ),
    *(
        "0-4294967295",
        "^0",
        "0-",
        "1,2,^3",
        "0.0.0.0/0",
        "::/0",
        "999.1.1.1",
        "../../etc/passwd",
        "' OR 1=1 --",
    ),
    *(
        "2026-01-01T00:00:00Z",
        "0000-00-00 00:00:00",
        "9999-12-31T23:59:59+99:00",
        "large",
        "any",
        "1GB",
        "1.2.3",
    ),
    *("[" * 500, '{"a":' * 300, '["and", [">=", "$free_ram_mb", 1]]', '["=", "$instances.x", 1]', "x" * 300),
    f"rabbit://nova:{SECRET}@controller:5672/",
    "00000000-0000-0000-0000-000000000000",
)
VERSIONS = ("0.9", "1", "1.0", "1.99", "2.0", "1.0.1", "1.-1", "9" * 40, "1." + "9" * 8, "\u0661.0", "")


class Mutator:
    """Makes mutations of the values of a corpus."""

    def __init__(self, rng: random.Random, donors: Sequence[Json], words: Sequence[str] = ()) -> None:
        """Mutate with parts of other values.

        Args:
            rng: Makes all choices.
            donors: Values of which parts are inserted elsewhere.
            words: Names that mean something where they are inserted: keys, operators, hints.
        """
        self._rng = rng
        self._donors = donors
        self._words = words or ("key",)
        self._weighted: Sequence[tuple[int, Callable[[Json, Path], Json]]] = (
            (30, self._replace_leaf),
            (12, self._replace_any),
            (10, self._change_text),
            (10, self._delete),
            (8, self._add_key),
            (8, self._splice),
            (6, self._change_version),
            (5, self._repeat),
            (4, self._swap),
            (3, self._wrap),
            (2, self._nest),
        )

    def mutate(self, value: Json) -> Json:
        """Return a mutated copy; ``value`` stays as it is."""
        value = copied(value)
        rounds = 1 + min(int(self._rng.expovariate(0.8)), 5)
        for _ in range(rounds):
            paths = list(all_paths(value))
            if not paths:
                break
            (operation,) = self._rng.choices(
                [each for _, each in self._weighted], [weight for weight, _ in self._weighted]
            )
            # copied: a part that is in two places would be changed in both, and could come to hold itself
            changed = copied(operation(copied(value), self._rng.choice(paths)))
            if depth(changed) < MOST_DEPTH:
                value = changed
        return value

    # -- operations: each changes what a path leads to

    def _replace_leaf(self, value: Json, path: Path) -> Json:
        leaves = [each for each in all_paths(value) if not isinstance(at(value, each), dict | list)]
        return replaced(value, self._rng.choice(leaves), self._hostile()) if leaves else value

    def _replace_any(self, value: Json, path: Path) -> Json:
        return replaced(value, path, self._rng.choice((self._hostile, self._empty, self._part))())

    def _change_text(self, value: Json, path: Path) -> Json:
        texts = [each for each in all_paths(value) if isinstance(at(value, each), str)]
        if not texts:
            return value
        path = self._rng.choice(texts)
        text = at(value, path)
        place = self._rng.randrange(len(text) + 1)
        inserted = self._rng.choice((self._rng.choice(TEXTS), chr(self._rng.randrange(0x110000)), text))
        end = place + self._rng.choice((0, 0, 1, 5))
        return replaced(value, path, text[:place] + inserted + text[end:])

    def _delete(self, value: Json, path: Path) -> Json:
        return removed(value, path)

    def _add_key(self, value: Json, path: Path) -> Json:
        found = [each for each in ((), *all_paths(value)) if isinstance(at(value, each), dict)]
        if found:
            at(value, self._rng.choice(found))[self._word()] = self._rng.choice((self._hostile, self._part))()
        return value

    def _splice(self, value: Json, path: Path) -> Json:
        return replaced(value, path, self._part())

    def _change_version(self, value: Json, path: Path) -> Json:
        envelopes = [each for each in ((), *all_paths(value)) if base.is_envelope(at(value, each))]
        if not envelopes:
            return self._replace_leaf(value, path)
        envelope = at(value, self._rng.choice(envelopes))
        key = self._rng.choice(
            (base.VERSION, base.VERSION, base.NAME, base.NAMESPACE, base.DATA, base.CHANGES)
        )
        hostile = {base.VERSION: VERSIONS, base.NAME: sorted(base.REGISTRY)}.get(key, TEXTS)
        envelope[key] = self._rng.choice((self._rng.choice(hostile), self._hostile()))
        return value

    def _repeat(self, value: Json, path: Path) -> Json:
        lists = [each for each in all_paths(value) if isinstance(at(value, each), list) and at(value, each)]
        if not lists:
            return value
        path = self._rng.choice(lists)
        inner, times = at(value, path), self._rng.choice((2, 2, 10, 300))
        return replaced(value, path, inner * min(times, 1 + MOST_REPEATED // size(inner)))

    def _swap(self, value: Json, path: Path) -> Json:
        other = self._rng.choice(list(all_paths(value)))
        if path == other[: len(path)] or other == path[: len(other)]:
            return value
        first, second = at(value, path), at(value, other)
        return replaced(replaced(value, path, second), other, first)

    def _wrap(self, value: Json, path: Path) -> Json:
        inner = at(value, path)
        return replaced(value, path, self._rng.choice(([inner], {self._word(): inner}, str(inner)[:10_000])))

    def _nest(self, value: Json, path: Path) -> Json:
        inner = at(value, path)
        for _ in range(self._rng.choice((3, 50, MOST_DEPTH - 100))):
            inner = [inner]
        return replaced(value, path, inner)

    # -- what is inserted

    def _hostile(self) -> Json:
        if self._rng.random() < 0.002:
            return self._rng.choice(("x", "\n", "9", "\u00e9")) * LARGE_TEXT
        kind = self._rng.randrange(10)
        if kind < 4:
            return self._rng.choice(NUMBERS)
        if kind < 7:
            return self._rng.choice(TEXTS)
        return self._word() if kind < 9 else None

    def _empty(self) -> Json:
        return self._rng.choice((None, [], {}, "", 0, [[]], [None], {"": None}))

    def _part(self) -> Json:
        donor = self._rng.choice(self._donors)
        paths = [(), *all_paths(donor)]
        return copied(at(donor, self._rng.choice(paths)))

    def _word(self) -> str:
        return self._rng.choice(self._words)


def all_paths(value: Json, limit: int = 2000) -> list[Path]:
    """Return the paths to everything in a value but the value itself, at most ``limit`` of them."""
    found: list[Path] = []
    waiting: list[tuple[Path, Json]] = [((), value)]
    while waiting and len(found) < limit:
        path, inner = waiting.pop()
        items = (
            inner.items() if isinstance(inner, dict) else enumerate(inner) if isinstance(inner, list) else ()
        )
        for key, item in items:
            found.append((*path, key))
            if isinstance(item, dict | list):
                waiting.append(((*path, key), item))
    return found


def at(value: Json, path: Path) -> Json:
    """Return what a path leads to."""
    for key in path:
        value = value[key]
    return value


def replaced(value: Json, path: Path, new: Json) -> Json:
    """Put ``new`` where the path leads, in place, and return the whole."""
    if not path:
        return new
    at(value, path[:-1])[path[-1]] = new
    return value


def removed(value: Json, path: Path) -> Json:
    """Remove what the path leads to, in place, and return the whole."""
    if path:
        del at(value, path[:-1])[path[-1]]
    return value


def size(value: Json) -> int:
    """Return about how many bytes a value takes on the wire."""
    return len(marshal.dumps(value, 2))


def copied(value: Json) -> Json:
    """Return a deep copy, also of lone surrogates and of values that are nested deeply."""
    return marshal.loads(marshal.dumps(value, 2))  # noqa: S302 - version 2 keeps no identities


def depth(value: Json) -> int:
    """Return how deeply lists and dicts are nested."""
    deepest, level = 0, [value]
    while level:
        level = [
            item
            for inner in level
            if isinstance(inner, dict | list)
            for item in (inner.values() if isinstance(inner, dict) else inner)
        ]
        deepest += bool(level)
    return deepest
