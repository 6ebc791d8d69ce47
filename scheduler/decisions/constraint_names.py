"""The constraints of a request's query by the names that operators and users gave."""

from collections.abc import Sequence

from scheduler import objects
from scheduler.hosts.aggregates import Aggregate, Aggregates
from scheduler.request import resource_request
from scheduler.request.prefilters.aggregates import isolating_traits, names_tenant
from scheduler.request.reading import read
from scheduler.request.targets import named_target


class RequestNames:
    """The names of one request. Deleted aggregates are named by UUID."""

    def __init__(self, spec: objects.RequestSpec, aggregates: Aggregates) -> None:
        self._spec = spec
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

    def group(self, suffix: str) -> str:
        """Return the PCI alias, or the suffix."""
        for each in read(read(self._spec, "pci_requests"), "requests", ()):
            alias = read(each, "alias_name")
            # each device of a PCI request has a group: REQUEST_ID-NUMBER
            if alias and suffix.lstrip("_").rpartition("-")[0] == read(each, "request_id"):
                return f"PCI alias {alias}"
        return f"group {suffix}"

    def _known(self, aggregates: Sequence[str]) -> list[Aggregate]:
        return [self._aggregates[uuid] for uuid in aggregates if uuid in self._aggregates]

    def _isolated(self, uuid: str) -> str:
        known: Aggregate | None = self._aggregates.get(uuid)
        if known is None:
            return uuid
        wanted = resource_request.make(self._spec).required_traits()
        traits = sorted(isolating_traits(known.metadata) - wanted)
        why = f" (isolated: for requests with trait {' and '.join(traits)})" if traits else ""
        return known.name + why

    def _name(self, uuid: str) -> str:
        known = self._aggregates.get(uuid)
        return known.name if known else uuid
