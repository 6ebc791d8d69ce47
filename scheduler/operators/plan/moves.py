"""Moving instances to other hosts as conductors and computes do it: one after the other, each to its end."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
import re
from typing import Any

import msgspec

from scheduler import objects
from scheduler.decisions import rendering
from scheduler.errors import BerthError
from scheduler.logs import count_text
from scheduler.operators.plan.command import NAMED, Plan
from scheduler.operators.plan.movable import Way
from scheduler.operators.shown.shown import Columns, Table, table
from scheduler.operators.snapshot.planned_cloud import PlannedCloud, TakenHost
from scheduler.placement.plain_query import only_plain_query
from scheduler.request.reading import read
from scheduler.request.scheduling_request import SchedulingRequest

#: Instances of one request that are decided together.
TOGETHER = 200


@dataclass(frozen=True)
class Move:
    """An instance that goes to another host.

    Attributes:
        source: The row that it leaves.
        target: The row that it gets.
    """

    index: int
    source: int
    target: int


@dataclass(frozen=True)
class Stuck:
    """An instance that finds no place.

    Attributes:
        why: The reason; "" if it was not determined.
        amounts: What it requests, by resource class.
    """

    index: int
    why: str
    amounts: Mapping[str, int]


class Mover:
    """Finds other hosts for instances, and charges them."""

    def __init__(self, cloud: PlannedCloud, *, explain: bool = True, refused: Mapping[str, str] = {}) -> None:
        """Move nothing yet.

        Args:
            explain: Find out why an instance has no place, which takes longer than a decision.
            refused: Hosts that instances do not get, by instance.
        """
        self._cloud = cloud
        self._explain = explain
        self._refused = refused
        self._snapshot = cloud.snapshot
        self._amounts: dict[int, Mapping[str, int] | None] = {}

    def order(self, indices: Iterable[int]) -> list[int]:
        """Return instances in an order that mostly works: those that fit on fewest hosts first.

        First those with devices, then pinned ones, members of server groups, and large ones. Equal ones are
        together.
        """
        instances = self._snapshot.instances

        def key(index: int) -> tuple[Any, ...]:
            stored = self._snapshot.stored_request(index)
            if stored is None:
                return (9, 0, 0, 0, 0, instances.uuids[index])
            flavor: Any = stored.flavor
            kind = (stored.has_devices, stored.is_pinned, bool(self.group_of(index)), True).index(True)
            amounts = -flavor.memory_mb, -flavor.vcpus, -flavor.root_gb - flavor.ephemeral_gb
            return (kind, *amounts, int(instances.specs[index]), int(self._cloud.places.rows[index]))

        return sorted(indices, key=key)

    def batches(self, indices: Iterable[int]) -> Iterator[list[int]]:
        """Yield instances in order, in batches with equal requests and cells that are decided together.

        Members of server groups, and instances with devices or with hints that name instances, are alone: the
        host of one changes the request of the next.
        """

        def key(index: int) -> tuple[Any, ...]:
            stored = self._snapshot.stored_request(index)
            alone = stored is None or self.group_of(index) or stored.has_devices or stored.names_instances
            number, refused = self._snapshot.instances.specs[index], self._refused_by(index)
            return (number, self._cell(index), refused, index if alone else -1)

        for _, group in groupby(indices, key):
            batch = list(group)
            yield from (batch[start : start + TOGETHER] for start in range(0, len(batch), TOGETHER))

    def _cell(self, index: int) -> str:
        return self._snapshot.table.rows[int(self._cloud.places.rows[index])].cell_uuid

    def _refused_by(self, index: int) -> str:
        return self._refused.get(self._snapshot.instances.uuids[index], "")

    def request(self, batch: Sequence[int]) -> objects.RequestSpec:
        """Return the request that a conductor would send for another host in the cell of instances."""
        spec: Any = self._snapshot.request(batch[0])
        rows = {int(self._cloud.places.rows[index]) for index in batch}
        # to ignore a closed host again costs time
        leaving = {row for row in rows if self._explain or not self._cloud.closed[row]}
        ignored = {*map(self._cloud.host, leaving), self._refused_by(batch[0])} - {""}
        spec.ignore_hosts = sorted(ignored) or None
        return self.to_cell(spec, self._cell(batch[0]))

    @staticmethod
    def to_cell(spec: Any, cell_uuid: str) -> objects.RequestSpec:
        cell = objects.CellMapping(uuid=cell_uuid)
        spec.requested_destination = objects.Destination(cell=cell, allow_cross_cell_move=False)
        return spec

    def move_all(self, indices: Iterable[int]) -> tuple[list[Move], list[Stuck]]:
        """Move instances in the given order, and charge each one to its new host.

        Those of an affinity group are tried again when others of it have moved, and those that name instances
        when any has.
        """
        moves, stuck, left = list[Move](), list[Stuck](), list(indices)
        total = len(left)
        while left:
            done, failed = list[Move](), list[Stuck]()
            for batch in self.batches(left):
                more, rest = self._move_batch(batch)
                done += more
                failed += rest
                self._snapshot.progress("instances", len(moves) + len(done) + len(failed), total)
            moves += done
            groups = [self._snapshot.groups.get(self.group_of(move.index)) for move in done]
            affine = {group.uuid for group in groups if group and group.policy == "affinity"}
            again = [
                each for each in failed
                if self.group_of(each.index) in affine or (done and self.names_others(each.index))
            ]  # fmt: skip
            stuck = [each for each in (*stuck, *failed) if each not in again]
            left = [each.index for each in again]
        return moves, stuck

    def group_of(self, index: int) -> str:
        """Return the UUID of the server group of an instance; "" for none."""
        return self._snapshot.instances.group_of.get(self._snapshot.instances.uuids[index], "")

    def names_others(self, index: int) -> bool:
        """Whether the request of an instance has hints that name other instances."""
        stored = self._snapshot.stored_request(index)
        return stored is not None and stored.names_instances

    def explained(self, stuck: Iterable[Stuck]) -> list[Stuck]:
        """Return instances without a place with the reasons, as the cloud is now; equal ones share one."""
        found: dict[tuple[int, str, str], str] = {}
        again = []
        for each in stuck:
            number = int(self._snapshot.instances.specs[each.index])
            key = number, self._cell(each.index), self.group_of(each.index)
            if not each.why and key not in found:
                spec = self.request([each.index])
                found[key] = self._cloud.decide(spec, [self._snapshot.instances.uuids[each.index]]).why
            again.append(replace(each, why=each.why or found[key]))
        return again

    def _move_batch(self, batch: Sequence[int]) -> tuple[list[Move], list[Stuck]]:
        if self._snapshot.stored_request(batch[0]) is None:
            return [], [Stuck(index, "no readable request of it is stored", {}) for index in batch]
        uuids, moves, left = self._snapshot.instances.uuids, list[Move](), list(batch)
        explain = None if self._explain else False
        while left:
            spec, wanted = self.request(left), [uuids[index] for index in left]
            decision = self._cloud.decide(spec, wanted, explain=explain, separately=True)
            if not decision.chosen:
                amounts = dict(decision.queries[0].amounts()) if decision.queries else {}
                return moves, [Stuck(index, decision.why, amounts) for index in left]
            moves += [self._settle(*each, spec) for each in zip(left, decision.chosen, strict=False)]
            left = left[len(decision.chosen) :]
        return moves, []

    def _settle(self, index: int, chosen: TakenHost, spec: objects.RequestSpec) -> Move:
        source = int(self._cloud.places.rows[index])
        self._cloud.remove(index, self.held(index))
        self._cloud.put(index, chosen, spec.flavor)
        return Move(index, source, chosen.row)

    def held(self, index: int) -> Mapping[str, Any] | None:
        """Return what an instance holds in Placement; None if more than its node gives it."""
        amounts = self.amounts(index)
        node = self._snapshot.table.rows[int(self._cloud.places.rows[index])].uuid
        return None if amounts is None else {node: {"resources": dict(amounts)}}

    def amounts(self, index: int) -> Mapping[str, int] | None:
        """Return what an instance takes of its node, by class; None if it also takes of other providers."""
        number = int(self._snapshot.instances.specs[index])
        if number not in self._amounts:
            uuid = self._snapshot.instances.uuids[index]
            request, plain = SchedulingRequest.of(self._snapshot.request(index), [uuid]), None
            with suppress(BerthError):
                plain = only_plain_query(self._snapshot.candidate_hosts.queries(request))
            self._amounts[number] = None if plain is None else plain.amounts
        return self._amounts[number]


def summed(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in amounts:
        total.update(each)
    return dict(sorted(total.items()))


# -- documents -------------------------------------------------------------------------------------------


class PlannedInstance(msgspec.Struct, kw_only=True):
    """An instance and the host that it is on."""

    instance: str
    name: str | None = None
    project_id: str | None = None
    flavor: str | None = None
    state: str
    task_state: str | None = None
    server_group: str | None = None
    server_group_name: str | None = None
    source: str = msgspec.field(name="from")

    @property
    def group(self) -> str:
        return self.server_group_name or self.server_group or ""


class PlannedMove(PlannedInstance, kw_only=True):
    """A move of a plan, which has the number ``step``.

    Attributes:
        cell: Of the new host, as ``zone``.
        reset_state: Whether the state of the instance is reset first.
    """

    step: int
    to: str
    cell: str | None = None
    zone: str
    way: str
    reset_state: bool = False


class Unplaced(PlannedInstance, kw_only=True):
    """An instance without a place, what it requests, and the reason."""

    amounts: dict[str, int]
    why: str


class MovesPlan(Plan, kw_only=True):
    """A plan whose moves can be carried out.

    Attributes:
        hosts: Hosts that are to get no instances.
    """

    hosts: list[str] = []
    moves: Sequence[PlannedMove]
    without_place: list[Unplaced] = []


def planned(cloud: PlannedCloud, step: int, move: Move, way: Way) -> dict[str, Any]:
    """Return the fields of ``PlannedMove``."""
    return {
        **described(cloud, move.index, move.source),
        "step": step,
        "to": cloud.host(move.target),
        "cell": cloud.snapshot.cell_names().get(cloud.snapshot.place(move.target)[0]),
        "zone": cloud.snapshot.zone(move.target),
        "way": way.name,
        "reset_state": way.reset,
    }


def described(cloud: PlannedCloud, index: int, row: int) -> dict[str, Any]:
    """Return the fields of ``PlannedInstance``."""
    snapshot = cloud.snapshot
    group_uuid = snapshot.instances.group_of.get(snapshot.instances.uuids[index])
    group = snapshot.groups.get(group_uuid or "")
    return {
        "instance": snapshot.instances.uuids[index],
        "name": snapshot.instances.names[index] or None,
        "project_id": snapshot.instances.projects[index] or None,
        "flavor": read(snapshot.flavor(index), "name"),
        "state": snapshot.instances.states[index],
        "task_state": snapshot.instances.tasks[index] or None,
        "server_group": group_uuid,
        "server_group_name": (read(group, "name") or None) if group else None,
        "source": cloud.host(row),
    }


def unplaced(cloud: PlannedCloud, stuck: Stuck, row: int) -> Unplaced:
    words = described(cloud, stuck.index, row)
    return Unplaced(**words, amounts=dict(stuck.amounts), why=stuck.why)


# -- words -----------------------------------------------------------------------------------------------

#: Columns with the names of an instance; of these a text has the first.
_NAMES: Columns = {"Server": "name", "Project": "project_id", "Server group": "group"}
_ON_PAGES = tuple(_NAMES)[1:]


def flavor_of(instance: PlannedInstance) -> str:
    return instance.flavor or "?"


def causes(stays: Iterable[Unplaced]) -> list[str]:
    """Return one sentence for each cause, that of most instances first; numbers do not make another cause."""
    of_cause: dict[str, dict[str, list[Unplaced]]] = {}
    for one in stays:
        # the same cause holds for many hosts
        source = rf"(host )?(?<![\w.-]){re.escape(one.source)}(?![\w-]|\.\w)"
        words = re.sub(source, "its host", one.why)
        of_cause.setdefault(re.sub(r"\d+", "0", words), {}).setdefault(words, []).append(one)
    found = []
    for texts in of_cause.values():
        ones = [one for group in texts.values() for one in group]
        such = " for example" if len(texts) > 1 else ""
        cause = max(texts, key=lambda text: len(texts[text]))
        found.append((len(ones), f"{count_text(len(ones), 'instance')}{_groups(ones)}{such}: {cause}"))
    return [sentence for _, sentence in sorted(found, key=lambda each: -each[0])]


def _groups(stays: Sequence[Unplaced]) -> str:
    groups = list(dict.fromkeys(one.group for one in stays if one.server_group))
    if not groups:
        return ""
    return f" of {count_text(len(groups), 'server group')} ({rendering.first(groups, NAMED)})"


def stays_table(stays: Sequence[Unplaced]) -> Table:
    columns = {
        "Instance": "instance", **_NAMES, "Flavor": flavor_of, "State": "state", "On": "source",
        "Why it has no place": "why",
    }  # fmt: skip
    return table(stays, columns, "Instances without a place", pictures=_ON_PAGES)


def moves_table(moves: Sequence[PlannedMove], more: Columns) -> Table:
    columns = {
        "Step": "step", "Instance": "instance", **_NAMES, "Flavor": flavor_of,
        "From": "source", "To": "to", "Way": "way", **more,
    }  # fmt: skip
    return table(moves, columns, "Moves", pictures=_ON_PAGES, searched=bool(moves))
