"""Inputs: kept values with a few edits, drawn and made smaller by hypothesis."""

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
SECRET = "c0ffee-SECRET-c0ffee"
#: Edits of an input, and paths of a value that are edited.
MOST_EDITS, MOST_PATHS = 5, 2000

# fmt: off
LEAVES: Sequence[Json] = (
    None, [], {}, 0, [[]], [None], {"": None}, *base.REGISTRY,
    -1, 1, 2, 255, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**400,
    0.5, -0.0, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf, True, False,
    "0.9", "1", "1.0", "1.99", "2.0", "1.0.1", "1.-1", "9" * 40, "1." + "9" * 8, "\u0661.0",
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


def mutated(seeds: Sequence[Json], words: Sequence[str]) -> st.SearchStrategy[Json]:
    """Values that differ from one of ``seeds`` by a few edits.

    ``words`` are names that mean something where they are inserted: keys, operators, hints.
    """
    word = st.sampled_from(sorted(set(words)))
    part = st.sampled_from(seeds).flatmap(
        lambda seed: st.sampled_from([(), *paths(seed)]).map(lambda path: at(seed, path))
    )
    new = st.one_of(*map(st.sampled_from, (LEAVES, TEXTS)), word, part, st.text(), st.integers(), st.floats())

    @st.composite
    def edited(draw: Draw) -> Json:
        value = draw(st.sampled_from(seeds))
        for _ in range(draw(st.integers(1, MOST_EDITS))):
            # a part that is in two places would be changed in both, and could come to hold itself
            value = copied(value)
            found = paths(value)
            if not found:
                break
            # versions, names and changes of nova's objects are few among all paths
            envelopes = [path for path in found if str(path[-1]).startswith("nova_object")]
            path = draw(st.sampled_from(draw(st.sampled_from([found, envelopes or found]))))
            holder, key = at(value, path[:-1]), path[-1]
            edit = draw(st.sampled_from(["change", "change", "change", "add", "delete"]))
            if edit == "delete":
                del holder[key]
            elif edit == "add" and isinstance(holder, dict):
                holder[draw(word)] = draw(new)
            else:
                holder[key] = draw(change_of(holder[key], new, word))
        return copied(value)

    return edited()


def change_of(
    part: Json, new: st.SearchStrategy[Json], word: st.SearchStrategy[str]
) -> st.SearchStrategy[Json]:
    """What may be in the place of a part: something new, or the part changed, repeated, in a list, a key, or a text."""
    edits = [
        new,
        new,
        word.map(lambda key: {key: part}),
        st.sampled_from((1, 3, 100)).map(lambda n: nested(part, n)),
    ]
    if isinstance(part, list | str):
        edits.append(
            st.sampled_from((2, 10, 300)).map(lambda times: part * min(times, 1 + 10_000 // (1 + len(part))))
        )
    if isinstance(part, str):
        start, inserted = st.integers(0, len(part)), st.one_of(st.sampled_from(TEXTS), st.characters())
        edits.append(
            st.builds(
                lambda at, text, cut: part[:at] + text + part[at + cut :], start, inserted, st.integers(0, 5)
            )
        )
    return st.one_of(edits)


def nested(value: Json, levels: int) -> Json:
    """A value inside so many lists."""
    for _ in range(levels):
        value = [value]
    return value


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


def copied(value: Json) -> Json:
    """Return a deep copy, also of lone surrogates and of values that are nested deeply."""
    return marshal.loads(marshal.dumps(value, 2))
