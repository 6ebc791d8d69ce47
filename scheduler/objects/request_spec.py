"""The RequestSpec that a conductor sends, and the objects that only it contains.

These are the requested destination with its cell, and the request groups for Placement
(spec: wire-and-config 3.1, 3.2, 3.4, 3.11).
"""

import contextlib
from operator import attrgetter
from typing import Any

import os_resource_classes

from scheduler.objects import base, fields, legacy
from scheduler.objects.network import NetworkMetadata, NetworkRequestList, SecurityGroupList


@base.register
class CellMapping(base.WireObject):
    """One cell of the cloud. Its URLs contain passwords and must not be logged or sent in notifications."""

    VERSION = "1.1"
    fields = {
        "id": fields.integer(read_only=True),
        "uuid": fields.uuid(),
        "name": fields.text(nullable=True),
        "transport_url": fields.secret(),
        "database_connection": fields.secret(),
        "disabled": fields.boolean(default=False),
        **base.TIMESTAMPS,
    }


@base.register
class Destination(base.WireObject):
    """The requested host, node or cell, and the required and forbidden aggregates.

    Each element of ``aggregates`` is a comma-separated set of UUIDs. A host has to be in at least one
    aggregate of each set.
    """

    VERSION = "1.4"
    fields = {
        "host": fields.text(),
        "node": fields.text(nullable=True),
        "cell": fields.nested("CellMapping", nullable=True),
        "aggregates": fields.list_of(fields.text(), nullable=True, default=None),
        "allow_cross_cell_move": fields.boolean(default=False),
        "forbidden_aggregates": fields.set_of(fields.text(), nullable=True, default=None),
    }
    # Never sent as null, but rules read the host without checking whether it is set.
    lazy_defaults = {"host": lambda: None}
    aggregates: list[str] | None
    forbidden_aggregates: set[str] | None

    def require_aggregates(self, aggregates):
        """Require the host to be in one of these aggregates, besides what is required already."""
        self.aggregates = [*(self.aggregates or ()), ",".join(aggregates)]

    def append_forbidden_aggregates(self, forbidden_aggregates):
        """Forbid the host to be in any of these aggregates too."""
        self.forbidden_aggregates = {*(self.forbidden_aggregates or ()), *forbidden_aggregates}


@base.register
class RequestGroup(base.WireObject):
    """Resources, traits and aggregates that are requested from one provider or several.

    Each inner list of ``aggregates`` is a list of alternatives; all inner lists have to be met.
    """

    VERSION = "1.3"
    ephemeral = True
    fields = {
        "use_same_provider": fields.boolean(default=True),
        "resources": fields.dict_of(fields.integer(), default={}),
        **fields.each(
            "required_traits forbidden_traits forbidden_aggregates",
            fields.set_of(fields.text(), default=set()),
        ),
        "aggregates": fields.list_of(fields.list_of(fields.text()), default=[]),
        "requester_id": fields.text(nullable=True, default=None),
        "provider_uuids": fields.list_of(fields.uuid(), default=[]),
        "in_tree": fields.uuid(nullable=True, default=None),
    }

    resources: dict[str, int]
    required_traits: set[str]
    forbidden_traits: set[str]

    def add_resource(self, rclass, amount):
        """Request an amount of a resource class; neither an unknown class nor a negative amount is added."""
        known = rclass in os_resource_classes.STANDARDS or rclass.startswith(
            os_resource_classes.CUSTOM_NAMESPACE
        )
        with contextlib.suppress(ValueError):
            if known and int(amount) >= 0:
                self.resources = {**self.resources, rclass: int(amount)}

    def add_trait(self, trait_name, trait_type):
        """Require or forbid a trait: the type is ``required`` or ``forbidden``, any other adds nothing."""
        if trait_type == "required":
            self.required_traits = {*self.required_traits, trait_name}
        elif trait_type == "forbidden":
            self.forbidden_traits = {*self.forbidden_traits, trait_name}


@base.register
class RequestLevelParams(base.WireObject):
    """Requirements on the provider tree as a whole; usually empty."""

    VERSION = "1.1"
    fields = {
        "root_required": fields.set_of(fields.text(), default=set()),
        "root_forbidden": fields.set_of(fields.text(), default=set()),
        "same_subtree": fields.list_of(fields.list_of(fields.text()), default=[]),
    }


_REBUILD_HINT = "_nova_check_type"
_CELL_SECRETS = ("transport_url", "database_connection")


@base.register
class RequestSpec(base.WireObject):
    """The description of the instances to be placed.

    ``"field" in spec`` is whether a field was sent. A field that was not sent reads as its default or
    None; ``flavor`` and ``instance_uuid`` have neither.
    """

    VERSION = "1.15"
    fields = {
        "id": fields.integer(),
        "image": fields.nested("ImageMeta", nullable=True),
        "numa_topology": fields.nested("InstanceNUMATopology", nullable=True),
        "pci_requests": fields.nested("InstancePCIRequests", nullable=True),
        **fields.each("project_id user_id availability_zone", fields.text(nullable=True)),
        "flavor": fields.nested("Flavor"),
        "num_instances": fields.integer(default=1),
        **fields.each("ignore_hosts force_hosts force_nodes", fields.list_of(fields.text(), nullable=True)),
        "requested_destination": fields.nested("Destination", nullable=True, default=None),
        "retry": fields.nested("SchedulerRetries", nullable=True),
        "limits": fields.nested("SchedulerLimits", nullable=True),
        "instance_group": fields.nested("InstanceGroup", nullable=True),
        "scheduler_hints": fields.dict_of(fields.list_of(fields.text()), nullable=True),
        "instance_uuid": fields.uuid(),
        "security_groups": fields.nested("SecurityGroupList"),
        "network_metadata": fields.nested("NetworkMetadata"),
        "is_bfv": fields.boolean(),
        "requested_resources": fields.list_of(fields.nested("RequestGroup"), nullable=True, default=None),
        "request_level_params": fields.nested("RequestLevelParams"),
        "requested_networks": fields.nested("NetworkRequestList"),
    }
    lazy_defaults = {
        "security_groups": SecurityGroupList,
        "network_metadata": lambda: NetworkMetadata(physnets=set(), tunneled=False),
        "is_bfv": lambda: False,
        "request_level_params": RequestLevelParams,
        "requested_networks": NetworkRequestList,
    }
    _received = None

    @classmethod
    def _read(cls, context, version, data, changes):
        spec = super()._read(context, version, data, changes)
        spec._received = {  # noqa: SLF001 - of this class
            base.NAME: "RequestSpec",
            base.NAMESPACE: cls.OBJ_PROJECT_NAMESPACE,
            base.VERSION: version,
            base.DATA: data,
        }
        return spec

    def as_received(self):
        """Return the envelope that this was read from, whatever has changed since, without secrets of a cell.

        For a request that was made here it is what would be sent now.
        """
        envelope = self._received or self.obj_to_primitive()
        data = envelope[base.DATA]
        destination = data.get("requested_destination")
        cell = destination and destination[base.DATA].get("cell")
        if not cell:
            return envelope
        public = {name: value for name, value in cell[base.DATA].items() if name not in _CELL_SECRETS}
        target = destination[base.DATA] | {"cell": cell | {base.DATA: public}}
        return envelope | {
            base.DATA: data | {"requested_destination": destination | {base.DATA: target}},
        }

    # Of one instance: memory and swap in MiB, disks in GiB.
    vcpus = property(attrgetter("flavor.vcpus"))
    memory_mb = property(attrgetter("flavor.memory_mb"))
    root_gb = property(attrgetter("flavor.root_gb"))
    ephemeral_gb = property(attrgetter("flavor.ephemeral_gb"))
    swap = property(attrgetter("flavor.swap"))

    # Traits that the root provider must have or not, and lists of group suffixes for one subtree each.
    root_required = property(attrgetter("request_level_params.root_required"))
    root_forbidden = property(attrgetter("request_level_params.root_forbidden"))
    same_subtree = property(attrgetter("request_level_params.same_subtree"))

    @property
    def is_rebuild(self):
        """Whether this is the check of the current host before a rebuild with a new image.

        A conductor adds the hint and forces the current host. The hint alone can come from a user, whose boot
        request must not be answered without a claim (spec: wire-and-config 1.5).
        """
        hint = (self.scheduler_hints or {}).get(_REBUILD_HINT)
        return hint == ["rebuild"] and bool(self.force_hosts)

    @property
    def maps_requested_resources(self):
        """Whether there are request groups, which have to be mapped to providers."""
        return bool(self.requested_resources)

    def get_scheduler_hint(self, hint_name, default=None):
        """Return the value of a hint, or its only element if it is a list of one."""
        value = (self.scheduler_hints or {}).get(hint_name, default)
        return value[0] if isinstance(value, list) and len(value) == 1 else value

    def get_request_group_mapping(self):
        """Return requester id -> provider UUIDs of each request group; None (not ``{}``) if unset."""
        if self.requested_resources is None:
            return None
        return {group.requester_id: group.provider_uuids for group in self.requested_resources}

    @classmethod
    def from_primitives(
        cls, context: object, request_spec: object, filter_properties: object
    ) -> "RequestSpec":
        """Return the RequestSpec for the two dicts that callers before version 4.3 send.

        Raises:
            InvalidRequest: A value does not suit its field.
        """
        return legacy.request_from_dicts(cls, context, request_spec, filter_properties)

    def to_legacy_request_spec_dict(self) -> dict[str, Any]:
        """Return the first of the two dicts, which legacy notifications contain."""
        return legacy.request_spec_dict(self)

    def to_legacy_filter_properties_dict(self):
        """Return the second of the two dicts."""
        return legacy.filter_properties_dict(self)
