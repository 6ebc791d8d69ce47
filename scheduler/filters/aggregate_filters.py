"""What the rules on host aggregates share: one verdict for each distinct set of aggregates.

Aggregates for images with certain properties only (spec: filters-and-weighers 2.11).

Aggregates that offer what a flavor's extra specs ask for (spec: filters-and-weighers 2.12).

Aggregates for certain projects only (spec: filters-and-weighers 2.13).

Aggregates for certain flavors only (spec: filters-and-weighers 2.14).

The requested availability zone (spec: filters-and-weighers 2.21).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from scheduler.filters.base import HostFilter
from scheduler.filters.extra_specs_ops import Requirement
from scheduler.filters.utils import extra_specs
from scheduler.hosts.aggregates import AVAILABILITY_ZONE, AggregateSet
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView

Judge = Callable[[AggregateSet], str]


class AggregateRule(HostFilter):
    """A filter that looks at a host's aggregates and at nothing else of it."""

    run_filter_once_per_request = True

    def judge(self, request: Any) -> Judge:
        """A function that says what speaks against a set of aggregates; empty if nothing does.

        What depends on the request alone is worked out here, once.
        """
        raise NotImplementedError

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        objection = self.judge(request)
        return hosts.coded("aggregates").spread(lambda aggregates: not objection(aggregates))

    def reason(self, host: HostState, request: Any) -> str:
        return self.judge(request)(AggregateSet(host.aggregates))


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


SCOPE = "aggregate_instance_extra_specs"


class AggregateInstanceExtraSpecsFilter(AggregateRule):
    """Each extra spec, bare or scoped ``aggregate_instance_extra_specs:``, is met by metadata of some
    aggregate.

    Any of several comma-separated values may meet it. Raises ``ValueError`` where a numeric requirement, or
    all the metadata it is compared with, are no numbers.
    """

    def applies(self, request: Any) -> bool:
        return bool(_requirements(request))

    def judge(self, request: Any) -> Judge:
        requirements = [(key, Requirement(text)) for key, text in _requirements(request)]

        def objection(aggregates: AggregateSet) -> str:
            metadata = aggregates.metadata
            for key, requirement in requirements:
                values = metadata.get(key)
                if not values:
                    return f"no aggregate defines {key}"
                if not any(map(requirement.holds, sorted(values, key=_numbers_first))):
                    return f"aggregate {key}={sorted(values)} does not satisfy '{requirement}'"
            return ""

        return objection


def _requirements(request: Any) -> list[tuple[str, str]]:
    """(metadata key, requirement) of the extra specs that concern aggregates."""
    parts = [(*_split(key), text) for key, text in extra_specs(request).items()]
    return [(key, text) for scope, key, text in parts if scope in (None, SCOPE)]


def _split(key: str) -> tuple[str | None, str]:
    scope, colon, rest = key.partition(":")
    return (scope, rest) if colon else (None, key)


def _numbers_first(value: str) -> tuple[bool, str]:
    try:
        float(value)
    except ValueError:
        return True, value
    return False, value


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


KEY = "instance_type"


class AggregateTypeAffinityFilter(AggregateRule):
    """Where aggregate metadata has ``instance_type``, only flavors of these comma-separated names come."""

    def judge(self, request: Any) -> Judge:
        name = request.flavor.name

        def objection(aggregates: AggregateSet) -> str:
            listed = {part.strip() for value in aggregates.raw(KEY) for part in value.split(",")}
            return "" if not listed or name in listed else f"flavor {name} not among {sorted(listed)}"

        return objection


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
