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
SECRET = "c0ffee-SECRET-c0ffee"
#: Edits of an input, and paths of a value that are edited.
MOST_EDITS, MOST_PATHS = 5, 2000
#: Entries or characters up to which a part is repeated.
MOST_REPEATED = 10_000

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


def mutated(seeds: Sequence[Json], words: Sequence[str]) -> st.SearchStrategy[Json]:
    """Values that differ from one of ``seeds`` by a few edits.

    ``words`` are names that mean something where they are inserted: keys, operators, hints.
    """
    word = st.sampled_from(sorted(set(words)))
    leaf = st.one_of(
        *map(st.sampled_from, (NUMBERS, TEXTS, EMPTY)), word, st.text(), st.integers(), st.floats()
    )
    part = st.sampled_from(seeds).flatmap(
        lambda seed: st.sampled_from([(), *paths(seed)]).map(lambda path: at(seed, path))
    )
    new = st.one_of(leaf, leaf, part)

    @st.composite
    def edited(draw: Draw) -> Json:
        seed = draw(st.sampled_from(seeds))
        whole = [seed]
        for _ in range(draw(st.integers(1, MOST_EDITS))):
            # a part that is in two places would be changed in both, and could come to hold itself
            changed, (edit, fits) = copied(whole), draw(st.sampled_from(EDITS))
            fitting = [path for path in paths(changed) if fits(at(changed, path))]
            if fitting:
                path = draw(st.sampled_from(fitting))
                at(changed, path[:-1])[path[-1]] = edit(draw, at(changed, path), new, word)
            if type(changed[0]) is type(seed):
                whole = changed
        return copied(whole[0])

    return edited()


def _replace(draw, _inner, new, _word):
    return draw(new)


def _change_text(draw, inner, _new, _word):
    start = draw(st.integers(0, len(inner)))
    inserted = draw(st.one_of(st.sampled_from(TEXTS), st.just(inner), st.characters()))
    return inner[:start] + inserted + inner[start + draw(st.sampled_from((0, 0, 1, 5))) :]


def _delete(draw, inner, _new, _word):
    keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
    del inner[draw(st.sampled_from(keys))]
    return inner


def _add_key(draw, inner, new, word):
    return inner | {draw(word): draw(new)}


def _change_envelope(draw, inner, new, _word):
    key = draw(
        st.sampled_from((base.VERSION, base.VERSION, base.NAME, base.NAMESPACE, base.DATA, base.CHANGES))
    )
    known = {base.VERSION: VERSIONS, base.NAME: sorted(base.REGISTRY)}.get(key, TEXTS)
    return inner | {key: draw(st.one_of(st.sampled_from(known), new))}


def _repeat(draw, inner, _new, _word):
    return inner * min(draw(st.sampled_from((2, 10, 300))), 1 + MOST_REPEATED // (1 + len(inner)))


def _wrap(draw, inner, _new, word):
    return draw(st.sampled_from(([inner], {draw(word): inner}, str(inner)[:10_000])))


def _nest(draw, inner, _new, _word):
    for _ in range(draw(st.sampled_from((3, 100)))):
        inner = [inner]
    return inner


def _is(*types: type) -> Callable[[Json], bool]:
    return lambda value: isinstance(value, types) and bool(value)


#: What is done to a part of a value, and to which parts; the more often the likelier.
EDITS = (
    *[(_replace, lambda value: not isinstance(value, dict | list))] * 8,
    *[(_replace, lambda _value: True)] * 4,
    *[(_change_text, lambda value: isinstance(value, str))] * 3,
    *[(_delete, _is(dict, list))] * 3,
    *[(_add_key, lambda value: isinstance(value, dict))] * 3,
    *[(_change_envelope, base.is_envelope)] * 2,
    (_repeat, _is(list, str)),
    (_wrap, lambda _value: True),
    (_nest, lambda _value: True),
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


def copied(value: Json) -> Json:
    """Return a deep copy, also of lone surrogates and of values that are nested deeply."""
    return marshal.loads(marshal.dumps(value, 2))
