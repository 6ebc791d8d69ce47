"""Pre-filters on host aggregates: tenants, availability zones, isolation by trait."""

from collections.abc import Mapping

from scheduler import errors
from scheduler.request import resource_request
from scheduler.request.prefilters.base import PrefilterServices, ensure_destination
from scheduler.request.reading import read

_TENANT_KEY = "filter_tenant_id"
_ZONE_KEY = "availability_zone"
_TRAIT_KEY = "trait:"


def require_tenant_aggregate(spec, _context, services: PrefilterServices) -> bool:
    """Keep a project to the aggregates that name it.

    Options ``[scheduler]limit_tenants_to_placement_aggregate`` (off) and
    ``placement_aggregate_required_for_tenants``. The value of any metadata key that begins with
    ``filter_tenant_id`` must be the project, whole; commas do not separate (spec: filters-and-weighers 4.2).

    Raises:
        RequestFilterFailed: No aggregate names the project, and one is required.
    """
    options = services.conf.scheduler
    if not options.limit_tenants_to_placement_aggregate:
        return False
    project = read(spec, "project_id")
    uuids = _uuids_of(services, lambda metadata: names_tenant(metadata, project))
    if uuids:
        ensure_destination(spec).require_aggregates(uuids)
    elif options.placement_aggregate_required_for_tenants:
        services.warnings.warning(
            ("tenant", project),
            "No aggregate is for project %s, and placement_aggregate_required_for_tenants requires one",
            project,
        )
        raise errors.RequestFilterFailed("No hosts available for tenant")
    return True


def names_tenant(metadata: Mapping[str, str], project: str | None) -> bool:
    return any(value == project and key.startswith(_TENANT_KEY) for key, value in metadata.items())


def map_az_to_placement_aggregate(spec, _context, services: PrefilterServices) -> bool:
    """Keep a request to its availability zone. A zone that no aggregate names restricts nothing (4.3)."""
    zone = read(spec, "availability_zone")
    if not zone:
        return False
    uuids = _uuids_of(services, lambda metadata: metadata.get(_ZONE_KEY) == zone)
    if uuids:
        ensure_destination(spec).require_aggregates(uuids)
    return True


def isolate_aggregates(spec, _context, services: PrefilterServices) -> bool:
    """Keep requests out of aggregates whose traits they do not all require.

    ``[scheduler]enable_isolated_aggregate_filtering`` (off). Traits required of the root do not count (4.6).
    """
    if not services.conf.scheduler.enable_isolated_aggregate_filtering:
        return False
    wanted = resource_request.make(spec).required_traits()
    uuids = _uuids_of(services, lambda metadata: bool(isolating_traits(metadata) - wanted))
    if uuids:
        ensure_destination(spec).append_forbidden_aggregates(uuids)
    return True


def isolating_traits(metadata: Mapping[str, str]) -> set[str]:
    """Return the traits that a request must require to get into an aggregate."""
    return {
        key.removeprefix(_TRAIT_KEY)
        for key, value in metadata.items()
        if value == "required" and key.startswith(_TRAIT_KEY)
    }


def _uuids_of(services: PrefilterServices, matches) -> list[str]:
    return [a.uuid for a in services.aggregates() if a.uuid and matches(a.metadata)]
