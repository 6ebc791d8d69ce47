"""Rules on the aggregates that a host is in, and on nothing else of it.

Aggregates may be meant for certain images (spec: filters-and-weighers 2.11), projects (2.13) or flavors
(2.14); they may offer what a flavor's extra specs require (2.12), or be an availability zone (2.21). Each
rule is a function from a set of aggregates to an objection, called once for each distinct set of aggregates.
"""

from collections.abc import Callable

from scheduler.filters.base import HostFilter, Judge
from scheduler.filters.extra_specs_ops import Requirement
from scheduler.hosts.aggregates import AVAILABILITY_ZONE, AggregateSet
from scheduler.hosts.host_state import aggregate_set
from scheduler.request.scheduling_request import SchedulingRequest

SCOPE = "aggregate_instance_extra_specs"
TENANT_PREFIX = "filter_tenant_id"
FLAVOR_KEY = "instance_type"


def by_aggregates(objection: Callable[[AggregateSet], str]) -> Judge:
    """Return a judge by the reason against hosts in a set of aggregates; "" for none."""
    return Judge(
        lambda hosts: hosts.coded("aggregates").spread(lambda aggregates: not objection(aggregates)),
        lambda host: objection(aggregate_set(host)),
    )


class AggregateImagePropertiesIsolation(HostFilter):
    """An image property that an aggregate's metadata names must have one of the values given there.

    ``aggregate_image_properties_isolation_namespace`` and ``_separator`` (``.``), both deprecated: only keys
    with this prefix count, and are looked up with it, so that any separator but ``_`` turns the rule off.
    Properties that are unset, false, 0 or empty match everything.
    """

    RUN_ON_REBUILD = True
    run_filter_once_per_request = True

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        options = self.conf.filter_scheduler
        prefix = options.aggregate_image_properties_isolation_namespace
        if prefix:
            prefix += options.aggregate_image_properties_isolation_separator
        image = request.spec.image
        properties = image.properties.to_dict() if image else {}
        wanted = {
            key: str(value) for key, value in properties.items() if value and key.startswith(prefix or "")
        }

        def objection(aggregates: AggregateSet) -> str:
            for key, allowed in aggregates.metadata.items():
                value = wanted.get(key)
                if value is not None and value not in allowed:
                    return f"image {key}={value}, aggregates allow {sorted(allowed)}"
            return ""

        return by_aggregates(objection) if wanted else None


class AggregateInstanceExtraSpecsFilter(HostFilter):
    """Each extra spec, bare or scoped, is met by metadata of some aggregate.

    The scope is ``aggregate_instance_extra_specs:``; other scopes are not for this filter. Any of several
    comma-separated values may meet it. Raises ``ValueError`` where a numeric requirement, or all the metadata
    it is compared with, are no numbers.
    """

    run_filter_once_per_request = True

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        parts = [(*_split(key), text) for key, text in request.extra_specs.items()]
        requirements = [(key, Requirement(text)) for scope, key, text in parts if scope in (None, SCOPE)]

        def objection(aggregates: AggregateSet) -> str:
            for key, requirement in requirements:
                values = aggregates.metadata.get(key)
                if not values:
                    return f"no aggregate defines {key}"
                if not any(map(requirement.holds, sorted(values, key=_numbers_first))):
                    return f"aggregate {key}={sorted(values)} does not satisfy '{requirement}'"
            return ""

        return by_aggregates(objection) if requirements else None


def _split(key: str) -> tuple[str | None, str]:
    scope, colon, rest = key.partition(":")
    return (scope, rest) if colon else (None, key)


def _numbers_first(value: str) -> tuple[bool, str]:
    try:
        float(value)
    except ValueError:
        return True, value
    return False, value


class AggregateMultiTenancyIsolation(HostFilter):
    """Where aggregate metadata keys begin with ``filter_tenant_id``, only the projects they list may come.

    Other projects are kept out of these hosts; the listed projects may use other hosts too. An empty value
    keeps all projects out.
    """

    run_filter_once_per_request = True

    def prepare(self, request: SchedulingRequest) -> Judge:
        project = request.spec.project_id

        def objection(aggregates: AggregateSet) -> str:
            listed = [values for key, values in aggregates.metadata.items() if key.startswith(TENANT_PREFIX)]
            if not listed or any(project in values for values in listed):
                return ""
            return "aggregates reserved for other projects"

        return by_aggregates(objection)


class AggregateTypeAffinityFilter(HostFilter):
    """Where aggregate metadata has ``instance_type``, only flavors of these comma-separated names come."""

    run_filter_once_per_request = True

    def prepare(self, request: SchedulingRequest) -> Judge:
        name = request.flavor.name

        def objection(aggregates: AggregateSet) -> str:
            listed = {part.strip() for value in aggregates.raw(FLAVOR_KEY) for part in value.split(",")}
            return "" if not listed or name in listed else f"flavor {name} not among {sorted(listed)}"

        return by_aggregates(objection)


class AvailabilityZoneFilter(HostFilter):
    """Hosts of the requested zone; those without a zone are in ``default_availability_zone`` (``nova``)."""

    run_filter_once_per_request = True

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        wanted, default = request.spec.availability_zone, self.conf.default_availability_zone

        def objection(aggregates: AggregateSet) -> str:
            zones = aggregates.metadata.get(AVAILABILITY_ZONE) or {default}
            return "" if wanted in zones else f"zone {wanted} wanted, host is in {sorted(zones)}"

        return by_aggregates(objection) if wanted else None
