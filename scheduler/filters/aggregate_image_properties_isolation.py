"""Aggregates for images with certain properties only (spec: filters-and-weighers 2.11)."""

from typing import Any

from scheduler.filters.aggregate_rule import AggregateRule, Judge
from scheduler.hosts.aggregates import AggregateSet


class AggregateImagePropertiesIsolation(AggregateRule):
    """An image property that an aggregate's metadata names must have one of the values given there.

    ``aggregate_image_properties_isolation_namespace`` and ``_separator`` (``.``), both deprecated: only keys
    with this prefix count, and are looked up with it, so that any separator but ``_`` turns the rule off.
    Properties that are unset, false, 0 or empty match everything.
    """

    RUN_ON_REBUILD = True

    def judge(self, request: Any) -> Judge:
        wanted = {key: str(value) for key, value in self._properties(request) if value}

        def objection(aggregates: AggregateSet) -> str:
            for key, allowed in aggregates.metadata.items():
                value = wanted.get(key)
                if value is not None and value not in allowed:
                    return f"image {key}={value}, aggregates allow {sorted(allowed)}"
            return ""

        return objection

    def _properties(self, request: Any) -> list[tuple[str, Any]]:
        options = self.conf.filter_scheduler
        prefix = options.aggregate_image_properties_isolation_namespace
        if prefix:
            prefix += options.aggregate_image_properties_isolation_separator
        properties = request.image.properties.to_dict() if request.image else {}
        return [(key, value) for key, value in properties.items() if key.startswith(prefix or "")]
