"""Hosts with the capabilities that a flavor's extra specs require (spec: filters-and-weighers 2.4)."""

from collections.abc import Mapping
from dataclasses import dataclass
import json
from typing import Any

import numpy as np

from scheduler.filters import columns
from scheduler.filters.base import HostFilter, Judge, all_pass
from scheduler.filters.columns import of_numbers
from scheduler.filters.extra_specs_ops import Requirement
from scheduler.hosts.encoded_column import EncodedColumn
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest

SCOPE = "capabilities"
ADDRESS_BITS = "hw:maxphysaddr_bits"


class ComputeCapabilitiesFilter(HostFilter):
    """Extra specs scoped ``capabilities:``, and bare ones that name something a host has, must hold.

    A path (``capabilities:cpu_info:topology:cores``) begins at an attribute of the host, or if that is null
    at a key of its ``stats``, and continues through JSON texts, maps and objects. Bare extra specs that no
    host knows are not for this filter. Raises ``ValueError`` where numbers are compared and there are none.
    """

    run_filter_once_per_request = True

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        tests = tests_of(request.extra_specs)

        def passes(hosts: HostView) -> np.ndarray:
            kept = all_pass(hosts)
            for test in tests:
                if not kept.any():
                    break
                kept[kept] = test.passes(hosts.where(kept))
            return kept

        def reason(host: HostState) -> str:
            for test in tests:
                value = look_up(host, test.path)
                if test.concerns(host.stats) and not test.holds(value):
                    key = ":".join(test.path)
                    if value is None:
                        return f"{key}: no such capability"
                    return f"{key}: '{value}' does not satisfy '{test.requirement}'"
            return "rejected"

        return Judge(passes, reason) if tests else None


@dataclass(frozen=True)
class CapabilityTest:
    """One extra spec: what is at ``path`` must be as required.

    Attributes:
        path: Where a host has the value: the name of an attribute or a key of its ``stats``, then keys in it.
        requirement: What the value must be.
        bare: The extra spec had no scope: it concerns only hosts that have the name.
    """

    path: tuple[str, ...]
    requirement: Requirement
    bare: bool

    def concerns(self, stats: dict[str, Any]) -> bool:
        return not self.bare or columns.is_attribute(self.path[0]) or self.path[0] in stats

    def holds(self, value: Any) -> bool:
        return value is not None and self.requirement.holds(str(value))

    def passes(self, hosts: HostView) -> np.ndarray:
        name, rest = self.path[0], self.path[1:]
        if not columns.is_attribute(name):
            return self._in_stats(hosts)
        column = _parsed_cpu_info(hosts) if name == "cpu_info" and rest else columns.attribute(hosts, name)
        if column is None:
            return np.array([self.holds(look_up(host, self.path)) for host in hosts.hosts()], dtype=bool)
        if isinstance(column, EncodedColumn):
            return self._spread(hosts, column, rest)
        held = None if rest else self.requirement.hold(column)
        return self._spread(hosts, of_numbers(column), rest) if held is None else held

    def _spread(self, hosts: HostView, column: EncodedColumn, rest: tuple[str, ...]) -> np.ndarray:
        passed = column.spread(lambda value: self.holds(look_up(value, rest)))
        null = column.spread(lambda value: value is None)
        if null.any():
            passed[null] = self._in_stats(hosts.where(null))
        return passed

    def _in_stats(self, hosts: HostView) -> np.ndarray:
        ignored = self.bare and not columns.is_attribute(self.path[0])

        def holds(value: Any) -> bool:
            if value is columns.ABSENT:
                return ignored
            return self.holds(look_up(value, self.path[1:]))

        return columns.stat(hosts, self.path[0]).spread(holds)


def _parsed_cpu_info(hosts: HostView) -> EncodedColumn:
    """Return the ``cpu_info`` of each host; None where there is no text, an empty map where it is no JSON."""
    column = hosts.coded("cpu_info")
    return EncodedColumn(
        column.codes,
        tuple({} if info.text is not None and info.value is None else info.value for info in column.values),
    )


def look_up(value: Any, path: tuple[str, ...]) -> Any:
    """Return what is at the end of a path that starts at ``value``; None if there is nothing."""
    for name in path:
        value = _step(value, name)
        if value is None:
            break
    return value


def _step(value: Any, name: str) -> Any:
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, dict):
        return value.get(name)
    attribute = None if name.startswith("_") else getattr(value, name, None)
    if attribute is None:
        stats = getattr(value, "stats", None)
        attribute = stats.get(name) if isinstance(stats, dict) else None
    return attribute


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def tests_of(extra_specs: Mapping[str, str]) -> tuple[CapabilityTest, ...]:
    """Return the tests that the extra specs of a flavor require, in their order."""
    specs = dict(extra_specs)
    bits = specs.pop(ADDRESS_BITS, None)
    if bits is not None:
        specs[f"{SCOPE}:cpu_info:maxphysaddr:bits"] = f">= {bits}"
    return tuple(test for key, text in specs.items() for test in _test(key, text))


def _test(key: str, text: str) -> list[CapabilityTest]:
    scope, *path = key.split(":")
    if not path:
        return [CapabilityTest((key,), Requirement(text), bare=True)]
    return [CapabilityTest(tuple(path), Requirement(text), bare=False)] if scope == SCOPE else []
