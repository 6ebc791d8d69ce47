"""The requested availability zone (spec: filters-and-weighers 2.21)."""

from typing import Any

from scheduler.filters.aggregate_rule import AggregateRule, Judge
from scheduler.hosts.aggregates import AVAILABILITY_ZONE, AggregateSet


class AvailabilityZoneFilter(AggregateRule):
    """Hosts of the requested zone; those without a zone are in ``default_availability_zone`` (``nova``)."""

    def applies(self, request: Any) -> bool:
        return bool(request.availability_zone)

    def judge(self, request: Any) -> Judge:
        wanted, default = request.availability_zone, self.conf.default_availability_zone

        def objection(aggregates: AggregateSet) -> str:
            zones = aggregates.metadata.get(AVAILABILITY_ZONE) or {default}
            return "" if wanted in zones else f"zone {wanted} wanted, host is in {sorted(zones)}"

        return objection
