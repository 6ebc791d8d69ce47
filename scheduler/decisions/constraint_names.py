"""The constraints of a request's query by the names that operators and users gave."""

from collections.abc import Sequence
from typing import Any

from scheduler import objects
from scheduler.hosts.aggregates import Aggregates, HostAggregate
from scheduler.request import resource_request
from scheduler.request.prefilters.aggregates import isolating_traits, names_tenant
from scheduler.request.reading import read
from scheduler.request.targets import named_target


class RequestNames:
    """The names of one request. Deleted aggregates are named by UUID."""

    def __init__(self, spec: objects.RequestSpec, aggregates: Aggregates) -> None:
        self._spec = spec
        self._extra_specs = read(read(spec, "flavor"), "extra_specs", None) or {}
        self._aggregates = {each.uuid: each for each in aggregates}

    def host(self, uuid: str) -> str:
        """Return the forced host, or the requested destination."""
        target = named_target(self._spec)
        forced = read(self._spec, "force_hosts") or read(self._spec, "force_nodes")
        name = (target and (target.host or target.node)) or uuid
        return f"the {'forced host' if forced else 'requested destination'} {name}"

    def required(self, aggregates: Sequence[str]) -> str:
        """Return the zone, the project or the names of aggregates."""
        zone, project = read(self._spec, "availability_zone"), read(self._spec, "project_id")
        names = " or ".join(map(self._name, aggregates))
        if self.is_zone(aggregates):
            return f"availability zone {zone}"
        known = self._known(aggregates)
        if known and all(names_tenant(each.metadata, project) for each in known):
            return f"required aggregate {names} of project {project}"
        return f"required aggregate {names}"

    def is_zone(self, aggregates: Sequence[str]) -> bool:
        """Return whether these aggregates are the requested availability zone."""
        zone, known = read(self._spec, "availability_zone"), self._known(aggregates)
        return bool(zone and known) and all(each.availability_zone == zone for each in known)

    def forbidden(self, aggregates: Sequence[str]) -> str:
        """Return the names of isolated aggregates, with the traits that the request lacks."""
        return f"forbidden aggregate {' or '.join(map(self._isolated, aggregates))}"

    def group(self, suffixes: Sequence[str]) -> tuple[str, str]:
        """Return the name of equal numbered groups, and where they come from."""
        if alias := self.pci_alias(suffixes[0]):
            return f"PCI alias {alias}", "flavor"
        names = ", ".join(suffix.lstrip("_") for suffix in suffixes)
        noun = "group" if len(suffixes) == 1 else "groups"
        if any(f"resources{suffixes[0]}" in key for key in self._extra_specs):
            return f"{noun} {names}", "flavor"
        return f"{noun} {names}", "port or device profile"

    def pci_alias(self, suffix: str) -> str | None:
        """Return the PCI alias of a group; None for another group."""
        for each in read(read(self._spec, "pci_requests"), "requests", ()):
            alias = read(each, "alias_name")
            # each device of a PCI request has a group: REQUEST_ID-NUMBER
            if alias and suffix.lstrip("_").rpartition("-")[0] == read(each, "request_id"):
                return str(alias)
        return None

    def source_of_trait(self, element: str) -> str:
        """Return where a trait comes from, as the query names it."""
        names = element.removeprefix("!").removeprefix("in:").split(",")
        ends = tuple(f":{name}" for name in names)
        if any(key.startswith("trait") and key.endswith(ends) for key in self._extra_specs):
            return "flavor"
        image: Any = read(read(self._spec, "image"), "properties")
        if set(names) & set(read(image, "traits_required", None) or ()):
            return "image"
        return "flavor or image" if element.startswith(("COMPUTE_", "HW_")) else ""

    def _known(self, aggregates: Sequence[str]) -> list[HostAggregate]:
        return [self._aggregates[uuid] for uuid in aggregates if uuid in self._aggregates]

    def _isolated(self, uuid: str) -> str:
        known: HostAggregate | None = self._aggregates.get(uuid)
        if known is None:
            return uuid
        wanted = resource_request.make(self._spec).required_traits()
        traits = sorted(isolating_traits(known.metadata) - wanted)
        why = f" (isolated: for requests with trait {' and '.join(traits)})" if traits else ""
        return known.name + why

    def _name(self, uuid: str) -> str:
        known = self._aggregates.get(uuid)
        return known.name if known else uuid
