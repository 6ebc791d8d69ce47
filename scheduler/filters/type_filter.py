"""Aggregates for certain flavors only (spec: filters-and-weighers 2.14)."""

from typing import Any

from scheduler.filters.aggregate_rule import AggregateRule, Judge
from scheduler.hosts.aggregates import AggregateSet

KEY = "instance_type"


class AggregateTypeAffinityFilter(AggregateRule):
    """Where aggregate metadata has ``instance_type``, only flavors of these comma-separated names come."""

    def judge(self, request: Any) -> Judge:
        name = request.flavor.name

        def objection(aggregates: AggregateSet) -> str:
            listed = {part.strip() for value in aggregates.raw(KEY) for part in value.split(",")}
            return "" if not listed or name in listed else f"flavor {name} not among {sorted(listed)}"

        return objection
