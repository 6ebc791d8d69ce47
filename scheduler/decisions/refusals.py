"""Why hosts refuse an amount of a resource class: which limit of their inventories it breaks."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from scheduler.logs import count_text
from scheduler.placement.providers import Inventory

#: Why a provider refuses an amount, mildest first. For a host the mildest of its providers counts.
ROOM, FREE, CAPACITY, STEP_SIZE, MIN_UNIT, MAX_UNIT, ABSENT = range(7)


class Stock(NamedTuple):
    """An inventory, and what is allocated of it."""

    inventory: Inventory
    used: int

    def has_room(self, amount: int) -> bool:
        return _refusal(amount, *self).kind == ROOM


class _Refusal(NamedTuple):
    kind: int
    value: int
    inventory: Inventory


def refusals(name: str, amount: int, hosts: Iterable[Sequence[Stock]], noun: str = "host") -> Iterator[str]:
    """Yield why hosts refuse an amount, such as 'VCPU max_unit 128 on 64 hosts'; most hosts first.

    Args:
        hosts: The stocks of the class on the providers of each host; none if it has none of the class.
    """
    kinds: defaultdict[int, list[_Refusal]] = defaultdict(list)
    for stocks in hosts:
        refusal = min(
            (_refusal(amount, *stock) for stock in stocks), default=_Refusal(ABSENT, 0, Inventory(0))
        )
        kinds[refusal.kind].append(refusal)
    for kind, found in sorted(kinds.items(), key=lambda pair: -len(pair[1])):
        yield _text(f"{amount} {name} alone would fit" if kind == ROOM else name, kind, found, noun)


def _refusal(amount: int, inventory: Inventory, used: int) -> _Refusal:
    free = inventory.capacity - used
    checks = (
        (MAX_UNIT, amount > inventory.max_unit, inventory.max_unit),
        (MIN_UNIT, amount < inventory.min_unit, inventory.min_unit),
        (STEP_SIZE, amount % inventory.step_size, inventory.step_size),
        (CAPACITY, amount > inventory.capacity, inventory.capacity),
        (FREE, amount > free, free),
    )
    kind, value = next(((kind, value) for kind, is_broken, value in checks if is_broken), (ROOM, free))
    return _Refusal(kind, value, inventory)


_LIMITS = {CAPACITY: "capacity", STEP_SIZE: "step_size", MIN_UNIT: "min_unit", MAX_UNIT: "max_unit"}


def _text(name: str, kind: int, found: Sequence[_Refusal], noun: str) -> str:
    values = [each.value for each in found]
    where = f"on {count_text(len(found), noun)}"
    if kind in {ABSENT, ROOM}:
        return f"{'no ' if kind == ABSENT else ''}{name} {where}"
    if kind == FREE:
        return f"at most {max(values)} {name} free {where}"
    text = f"{name} {_LIMITS[kind]} {'-'.join(map(str, sorted({min(values), max(values)})))} {where}"
    return f"{text}: {_formula(found)}" if kind == CAPACITY else text


def _formula(found: Sequence[_Refusal]) -> str:
    inventory = max(found, key=lambda each: each.value).inventory
    return (
        f"total {inventory.total}, reserved {inventory.reserved}, "
        f"allocation_ratio {inventory.allocation_ratio:g}"
    )
