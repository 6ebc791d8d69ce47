"""What other options would change: recorded requests are decided twice, with the options in use and others.

Both times the requests come one after the other, in the order in which they came, to the hosts of the first
of them; what each chooses is charged to its host. Nothing but the options differs. The driver of the manager
chooses, among the hosts that Placement offered to the request at the time. A host that got instances in the
comparison is left out once nova's own amounts say that it is full.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
import copy
from dataclasses import dataclass, field, replace
import math

import numpy as np
from oslo_config import cfg

from scheduler.errors import BerthError
from scheduler.explain.document import time_text
from scheduler.explain.explanation import Document
from scheduler.explain.record import DecisionRecord, HostData
from scheduler.filters.amount_filters import CoreFilter, DiskFilter, RamFilter
from scheduler.filters.numa_topology_filter import fitter_of
from scheduler.hosts.coordinates import TableRows, ViewIndex
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.request_instances import InstanceSource
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.request.decision_line import DecisionCounts
from scheduler.request.scheduling_request import RequestKind, SchedulingRequest
from scheduler.rules.drivers import Rules
from scheduler.selection.consume import consumed_amounts
from scheduler.selection.driver import FilterDriver
from scheduler.selection.observer import DecisionObserver

VERSION = 1


@dataclass(slots=True)
class Outcome:
    """What some options would have decided.

    Attributes:
        hosts: By request, the host of each instance; empty if a request would have failed.
        load: What that adds to the hosts.
    """

    hosts: list[list[str]] = field(default_factory=list)
    load: Document = field(default_factory=dict)


def _why_left_out(record: DecisionRecord) -> str:
    """Return why a recorded request cannot be decided again."""
    if record.request.kind is not RequestKind.BUILD:
        return "rebuild check"
    if record.allowed is not None:
        return "hosts are no longer kept"
    if record.candidates.name == "held":
        return "redelivered, answered with the hosts that its instances held"
    if record.candidates.failed:
        return "Placement gave no answer"
    return "Placement offered no host" if record.candidates.name else "ended before hosts were looked for"


def compare(
    records: Sequence[DecisionRecord],
    now: "RuleSet",
    changed: "RuleSet",
    instances: InstanceSource,
    pause: Callable[[], None],
) -> Document:
    """Return how the choices for recorded requests differ, and how many of them cannot be decided again.

    Args:
        records: Records in the order of their requests.
        now: The rules with the options in use.
        changed: The rules with other options.
        instances: Where instances are now, for rules that ask for them.
        pause: Called between two requests.
    """
    # the memory of decisions may drop the hosts of a record at any time, to have room for a new one
    known, left_out = [], Counter[str]()
    for record in records:
        data = record.hosts
        if data is None or record.request.kind is not RequestKind.BUILD:
            left_out[_why_left_out(record)] += 1
        else:
            known.append((record, data))
    if not known:
        return _summed(0, [], {"now": _NO_LOAD, "changed": _NO_LOAD}, left_out)
    hosts = [data for _, data in known]
    before, after = (decided(hosts, rules, instances, pause) for rules in (now, changed))
    choices = [
        {
            "time": time_text(record.started_at),
            "request_id": record.request_id,
            "instance": uuid,
            "flavor": record.request.flavor.name if "name" in record.request.flavor else None,
            "chosen": _chosen(record, number),
            "now": _host(before.hosts[index], number),
            "changed": _host(after.hosts[index], number),
        }
        for index, (record, _) in enumerate(known)
        for number, uuid in enumerate(record.request.instance_uuids)
    ]
    return _summed(len(known), choices, {"now": before.load, "changed": after.load}, left_out)


def joined(found: Mapping[str, Document]) -> Document:
    """Return the comparisons of several workers as one.

    Each worker has decided its own requests again, and does not know what those of the others were given.

    Args:
        found: The comparison of each worker by its name; not empty.
    """
    choices = sorted((one for each in found.values() for one in each["choices"]), key=lambda one: one["time"])
    loads = {
        side: _joined_load([each["load"][side] for each in found.values()]) for side in ("now", "changed")
    }
    left_out = Counter[str]()
    for each in found.values():
        left_out.update(each["left_out"])
    return _summed(sum(each["requests"] for each in found.values()), choices, loads, left_out) | {
        "scheduler": ", ".join(sorted(found)),
        "options": next(iter(found.values()))["options"],
    }


def _summed(
    requests: int, choices: Sequence[Document], loads: Mapping[str, Document], left_out: Mapping[str, int]
) -> Document:
    return {
        "version": VERSION,
        "scheduler": None,
        "requests": requests,
        "left_out": dict(left_out),
        "instances": len(choices),
        "differing": sum(one["now"] != one["changed"] for one in choices),
        "spread": {side: _spread(load) for side, load in loads.items()},
        "choices": list(choices),
        "load": dict(loads),
    }


def _chosen(record: DecisionRecord, number: int) -> str | None:
    return record.chosen[number].host[0] if number < len(record.chosen) else None


def _host(hosts: Sequence[str], number: int) -> str | None:
    return hosts[number] if number < len(hosts) else None


# -- deciding again --------------------------------------------------------------------------------------


class RuleSet:
    """Rules with some options.

    Attributes:
        driver: Chooses hosts by them.
        amounts: Say whether a host is full.
    """

    def __init__(self, conf: cfg.ConfigOpts, rules: Rules) -> None:
        """Use rules that were loaded with ``conf``."""
        fitter = fitter_of(rules.chain.filters, conf)
        self.driver = FilterDriver(conf, rules.chain, rules.weighers, fitter)
        self.amounts = RamFilter(conf), CoreFilter(conf), DiskFilter(conf)


class _Charges(DecisionObserver):
    """Charges what a request chooses to the table for the requests after it."""

    def __init__(self, table: HostTable, amounts: Mapping[str, int], touched: Counter[int]) -> None:
        self._table = table
        self._amounts = amounts
        self._touched = touched
        self._rows: list[int] = []

    def consumed(self, number: int, hosts: HostView, index: ViewIndex) -> None:
        self._rows.append(int(hosts.table_rows[index]))

    def apply(self) -> None:
        """Charge the request: it has found hosts for all its instances."""
        for row in self._rows:
            self._touched[row] += 1
            for name, amount in self._amounts.items():
                if name != "num_io_ops":
                    self._table.numbers[name][row] += amount


def decided(
    requests: Sequence[HostData],
    rules: RuleSet,
    instances: InstanceSource,
    pause: Callable[[], None],
) -> Outcome:
    """Return what rules choose for requests that come one after the other."""
    outcome, touched = Outcome(), Counter[int]()
    first = requests[0].table
    table = _own_numbers(first)
    for data in requests:
        outcome.hosts.append(_decide(data, table, touched, rules, instances))
        pause()
    outcome.load = _load(outcome, first, table, touched)
    return outcome


def _own_numbers(table: HostTable) -> HostTable:
    own = copy.copy(table)
    own.numbers = {name: column.copy() for name, column in table.numbers.items()}
    return own


def _decide(
    data: HostData, table: HostTable, touched: Counter[int], rules: RuleSet, instances: InstanceSource
) -> list[str]:
    spec = data.request.spec.obj_clone()
    request = replace(
        data.request.restarted(), spec=spec, claims=False, with_alternates=False, counts=DecisionCounts()
    )
    view = _view(data, table, request, touched, rules, instances)
    charges = _Charges(table, consumed_amounts(request.flavor), touched)
    try:
        selections = rules.driver.select(view, request, None, observer=charges)
    except BerthError:
        return []
    charges.apply()
    return [one.service_host for one, *_ in selections]


def _view(
    data: HostData,
    table: HostTable,
    request: SchedulingRequest,
    touched: Counter[int],
    rules: RuleSet,
    instances: InstanceSource,
) -> HostView:
    """Return the hosts that Placement offered to a request, without those that are full by now."""
    uuids = [data.table.rows[row].uuid for row in data.rows.tolist()]
    known = [
        (position, table.row_of_uuid[uuid])
        for position, uuid in enumerate(uuids)
        if uuid in table.row_of_uuid
    ]
    rows = np.array([row for _, row in known], dtype=np.int64)
    full = _full(table, rows, request, touched, rules)
    left = [known[index] for index in np.flatnonzero(~full)]
    offered = data.offered
    candidates = None if offered is None else [offered.offered_candidates(at) for at, _ in left]
    moment = next((each.moment for each in data.rounds if each.moment), None)
    source = instances if moment is None else moment.instances
    return HostView.of(table, TableRows(rows[~full]), candidates, source, PendingPlacements())


def _full(
    table: HostTable,
    rows: np.ndarray,
    request: SchedulingRequest,
    touched: Counter[int],
    rules: RuleSet,
) -> np.ndarray:
    """Return which hosts got instances and have no room for another one: bool, shape (rows,)."""
    full = np.isin(rows, list(touched))
    if not full.any():
        return full
    hosts = HostView.of(table, TableRows(rows[full]))
    room = np.ones(len(hosts), dtype=bool)
    for rule in rules.amounts:
        # the root disk of an instance that boots from a volume is not on the host
        judge = None if request.spec.is_bfv and isinstance(rule, DiskFilter) else rule.prepare(request)
        verdict = None if judge is None else judge.passes(hosts)
        room &= True if verdict is None else verdict
    full[full] = ~room
    return full


# -- how instances are spread ----------------------------------------------------------------------------


_NO_LOAD: Document = {"failed_requests": 0, "hosts": 0, "used": 0.0, "used_squares": 0.0, "got": {}}


def _load(outcome: Outcome, before: HostTable, after: HostTable, touched: Counter[int]) -> Document:
    """Return what instances add to the hosts, in a form in which what several workers say can be joined.

    Returns:
        ``failed_requests``; of all hosts, before any instance came, ``hosts`` and the sum of the used shares
        of their RAM and of its squares, ``used`` and ``used_squares``; and ``got``: by UUID of each host that
        got instances their number ``instances``, ``ram_mb`` of them, and the host's ``free_ram_mb`` before
        and ``total_ram_mb``.
    """
    total = np.maximum(before.numbers["total_usable_ram_mb"], 1)
    free = before.numbers["free_ram_mb"]
    used = 1 - free / total
    return {
        "failed_requests": sum(not hosts for hosts in outcome.hosts),
        "hosts": len(used),
        "used": float(used.sum()),
        "used_squares": float((used**2).sum()),
        "got": {
            before.rows[row].uuid: {
                "instances": count,
                "ram_mb": int(free[row] - after.numbers["free_ram_mb"][row]),
                "free_ram_mb": int(free[row]),
                "total_ram_mb": int(total[row]),
            }
            for row, count in touched.items()
        },
    }


def _joined_load(loads: Sequence[Document]) -> Document:
    """Return what ``_load`` says of several workers as one; the hosts are those of one that has any."""
    got: dict[str, Document] = {}
    for uuid, one in (pair for load in loads for pair in load["got"].items()):
        known = got.setdefault(uuid, {**one, "instances": 0, "ram_mb": 0})
        known["instances"] += one["instances"]
        known["ram_mb"] += one["ram_mb"]
    failed = sum(load["failed_requests"] for load in loads)
    return {**max(loads, key=lambda load: load["hosts"]), "failed_requests": failed, "got": got}


def _spread(load: Document) -> Document:
    """Return how instances are spread, with means over all hosts."""
    got = load["got"].values()
    count = max(load["hosts"], 1)
    used, squares = load["used"], load["used_squares"]
    for one in got:
        before = 1 - one["free_ram_mb"] / one["total_ram_mb"]
        after = before + one["ram_mb"] / one["total_ram_mb"]
        used += after - before
        squares += after**2 - before**2
    mean = used / count
    return {
        "instances": sum(one["instances"] for one in got),
        "failed_requests": load["failed_requests"],
        "hosts": len(got),
        "most_on_one_host": max((one["instances"] for one in got), default=0),
        "ram_used_mean_percent": round(mean * 100, 2),
        "ram_used_deviation_percent": round(math.sqrt(max(squares / count - mean**2, 0.0)) * 100, 2),
    }
