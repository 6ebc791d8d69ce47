"""Inputs: kept values with a few edits, drawn and made smaller by hypothesis.

An edit changes the structure, a leaf, or what is special to nova's messages: versions and names of objects.
"""

from collections.abc import Callable, Sequence
import marshal
import math
from typing import Any

from hypothesis import strategies as st

from scheduler.objects import base

Json = Any
Path = tuple[str | int, ...]
Draw = Callable[[st.SearchStrategy[Any]], Any]

#: Stands for a password. It must not reach a log line or a caller.
SECRET = "c0ffee-SECRET-c0ffee"  # noqa: S105
#: A decoder of JSON refuses what is nested deeper.
MOST_DEPTH = 900
#: Characters of the largest texts, which are rare, one in so many: they take time.
LARGE_TEXT, LARGE_EVERY = 4 << 20, 300
#: Bytes up to which a list is repeated: a broker takes no message of more than 16 MiB by default.
MOST_REPEATED = 16 << 20
#: Edits of an input, and paths of a value that are edited.
MOST_EDITS, MOST_PATHS = 5, 2000

# fmt: off
NUMBERS: Sequence[Json] = (
    0, -1, 1, 2, 255, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**400,
    0.5, -0.0, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf, True, False,
)
TEXTS: Sequence[str] = (
    "", " ", "0", "-1", "1e400", "nan", "inf", "9" * 30, "9" * 5000, "0x10", "1_000", "\u0663", "None",
    "null", "true", "yes", "a\nb", "a\r\nERROR forged line", "\x00", "\x1b[31m", "\u2028", "\ud800",
    "x\udfff", "\u202e", "%s%n%d", "{0.__class__}", "$free_ram_mb", "$instances.x", "<in> ", "<or> ", "s== ",
    ">= ", "<all-in> a", "0-4294967295", "^0", "0-", "1,2,^3", "0.0.0.0/0", "::/0", "999.1.1.1",
    "../../etc/passwd", "' OR 1=1 --", "2026-01-01T00:00:00Z", "0000-00-00 00:00:00",
    "9999-12-31T23:59:59+99:00", "large", "any", "1GB", "1.2.3", "[" * 500, '{"a":' * 300,
    '["and", [">=", "$free_ram_mb", 1]]', '["=", "$instances.x", 1]', "x" * 300,
    f"rabbit://nova:{SECRET}@controller:5672/", "00000000-0000-0000-0000-000000000000",
)
# fmt: on
VERSIONS = ("0.9", "1", "1.0", "1.99", "2.0", "1.0.1", "1.-1", "9" * 40, "1." + "9" * 8, "\u0661.0", "")
EMPTY: Sequence[Json] = (None, [], {}, "", 0, [[]], [None], {"": None})


def inputs(seeds: Sequence[Json], words: Sequence[str]) -> st.SearchStrategy[Json]:
    """Return the strategy of a target.

    Args:
        seeds: Values to begin with, parts of which are also inserted elsewhere.
        words: Names that mean something where they are inserted: keys, operators, hints.
    """
    word = st.sampled_from(sorted(set(words)))
    large = st.sampled_from("x\n9\u00e9").map(lambda letter: letter * LARGE_TEXT)
    usual = st.one_of(
        st.none(),
        st.sampled_from(NUMBERS),
        st.sampled_from(TEXTS),
        word,
        st.text(),
        st.integers(),
        st.floats(),
    )
    hostile = st.integers(0, LARGE_EVERY).flatmap(lambda drawn: large if drawn == LARGE_EVERY else usual)
    part = st.sampled_from(seeds).flatmap(
        lambda seed: st.sampled_from([(), *paths(seed)]).map(lambda path: at(seed, path))
    )
    return _edited(seeds, hostile, part, word)


@st.composite
def _edited(draw: Draw, seeds: Sequence[Json], *inserted: st.SearchStrategy[Json]) -> Json:
    value = copied(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, MOST_EDITS))):
        edit, found = draw(st.sampled_from(EDITS)), paths(value)
        if not found:
            break
        # copied: a part that is in two places would be changed in both, and could come to hold itself
        changed = copied(edit(_Drawing(draw, *inserted), copied(value), draw(st.sampled_from(found))))
        if depth(changed) < MOST_DEPTH:
            value = changed
    return value


class _Drawing:
    """What edits draw from."""

    def __init__(
        self,
        draw: Draw,
        hostile: st.SearchStrategy[Json],
        part: st.SearchStrategy[Json],
        word: st.SearchStrategy[str],
    ) -> None:
        self._draw = draw
        self.hostile = lambda: draw(hostile)
        self.part = lambda: draw(part)
        self.word = lambda: draw(word)

    def one(self, items: Sequence[Any]) -> Any:
        return self._draw(st.sampled_from(items))

    def below(self, end: int) -> int:
        return self._draw(st.integers(0, end))

    def place(self, value: Json, fits: Callable[[Json], bool]) -> Path | None:
        """Return the path of something that fits; None if nothing does."""
        found = [path for path in ((), *paths(value)) if fits(at(value, path))]
        return self.one(found) if found else None


def _replace_leaf(drawing: _Drawing, value: Json, _path: Path) -> Json:
    leaf = drawing.place(value, lambda each: not isinstance(each, dict | list))
    return value if leaf is None else replaced(value, leaf, drawing.hostile())


def _replace_any(drawing: _Drawing, value: Json, path: Path) -> Json:
    return replaced(value, path, drawing.one((drawing.hostile, drawing.part, lambda: drawing.one(EMPTY)))())


def _change_text(drawing: _Drawing, value: Json, _path: Path) -> Json:
    place = drawing.place(value, lambda each: isinstance(each, str))
    if place is None:
        return value
    text = at(value, place)
    start = drawing.below(len(text))
    inserted = drawing.one((*TEXTS, text, chr(drawing.below(0x10FFFF))))
    return replaced(value, place, text[:start] + inserted + text[start + drawing.one((0, 0, 1, 5)) :])


def _delete(_drawing: _Drawing, value: Json, path: Path) -> Json:
    del at(value, path[:-1])[path[-1]]
    return value


def _add_key(drawing: _Drawing, value: Json, _path: Path) -> Json:
    place = drawing.place(value, lambda each: isinstance(each, dict))
    if place is not None:
        at(value, place)[drawing.word()] = drawing.one((drawing.hostile, drawing.part))()
    return value


def _change_envelope(drawing: _Drawing, value: Json, path: Path) -> Json:
    place = drawing.place(value, base.is_envelope)
    if place is None:
        return _replace_leaf(drawing, value, path)
    key = drawing.one((base.VERSION, base.VERSION, base.NAME, base.NAMESPACE, base.DATA, base.CHANGES))
    known = {base.VERSION: VERSIONS, base.NAME: sorted(base.REGISTRY)}.get(key, TEXTS)
    at(value, place)[key] = drawing.one((lambda: drawing.one(known), drawing.hostile))()
    return value


def _repeat(drawing: _Drawing, value: Json, _path: Path) -> Json:
    place = drawing.place(value, lambda each: isinstance(each, list) and bool(each))
    if place is None:
        return value
    inner, times = at(value, place), drawing.one((2, 2, 10, 300))
    return replaced(value, place, inner * min(times, 1 + MOST_REPEATED // size(inner)))


def _swap(drawing: _Drawing, value: Json, path: Path) -> Json:
    other = drawing.one(paths(value))
    if path == other[: len(path)] or other == path[: len(other)]:
        return value
    first, second = at(value, path), at(value, other)
    return replaced(replaced(value, path, second), other, first)


def _wrap(drawing: _Drawing, value: Json, path: Path) -> Json:
    inner = at(value, path)
    return replaced(value, path, drawing.one(([inner], {drawing.word(): inner}, str(inner)[:10_000])))


def _nest(drawing: _Drawing, value: Json, path: Path) -> Json:
    inner = at(value, path)
    for _ in range(drawing.one((3, 50, MOST_DEPTH - 100))):
        inner = [inner]
    return replaced(value, path, inner)


#: The more often the likelier.
EDITS = (
    *[_replace_leaf] * 8,
    *[_replace_any] * 4,
    *[_change_text] * 3,
    *[_delete] * 3,
    *[_add_key] * 3,
    *[_change_envelope] * 2,
    _repeat,
    _swap,
    _wrap,
    _nest,
)


def paths(value: Json) -> list[Path]:
    """Return the paths to everything in a value but the value itself, up to a bound."""
    found: list[Path] = []
    waiting: list[tuple[Path, Json]] = [((), value)]
    while waiting and len(found) < MOST_PATHS:
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
