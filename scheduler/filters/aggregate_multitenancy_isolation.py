"""Aggregates for certain projects only (spec: filters-and-weighers 2.13)."""

from typing import Any

from scheduler.filters.aggregate_rule import AggregateRule, Judge
from scheduler.hosts.aggregates import AggregateSet

PREFIX = "filter_tenant_id"


class AggregateMultiTenancyIsolation(AggregateRule):
    """Where aggregate metadata keys begin with ``filter_tenant_id``, only the projects they list may come.

    Keeps others out, does not keep these in. An empty value keeps everybody out.
    """

    def judge(self, request: Any) -> Judge:
        project = request.project_id

        def objection(aggregates: AggregateSet) -> str:
            listed = [values for key, values in aggregates.metadata.items() if key.startswith(PREFIX)]
            if not listed or any(project in values for values in listed):
                return ""
            return "aggregates reserved for other projects"

        return objection
