"""What is to be placed: the request that a conductor sends (spec: wire-and-config 3.1).

Cells as they are named in requests (spec: wire-and-config 3.11).

Where a request has to go, or may not go (spec: wire-and-config 3.2).

Groups of resources asked of Placement (spec: wire-and-config 3.4).
"""

from scheduler.objects import base, fields, legacy
from scheduler.objects.network import NetworkMetadata, NetworkRequestList, SecurityGroupList


@base.register
class CellMapping(base.WireObject):
    """One cell. The URLs hold passwords: they must reach no log and no notification."""

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
    """A host, node or cell that was asked for, and sets of aggregates.

    Each element of ``aggregates`` is a comma-joined set: any of the set, but all elements.
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
    # never sent as null, but whoever asks for the host wants to know whether there is one
    lazy_defaults = {"host": lambda: None}


@base.register
class RequestGroup(base.WireObject):
    """Resources, traits and aggregates that one provider, or several, are to have.

    Inner lists of ``aggregates`` are alternatives, the outer list demands all of them.
    """

    VERSION = "1.3"
    ephemeral = True
    fields = {
        "use_same_provider": fields.boolean(default=True),
        "resources": fields.dict_of(fields.integer(), default={}),
        "required_traits": fields.set_of(fields.text(), default=set()),
        "forbidden_traits": fields.set_of(fields.text(), default=set()),
        "aggregates": fields.list_of(fields.list_of(fields.text()), default=[]),
        "forbidden_aggregates": fields.set_of(fields.text(), default=set()),
        "requester_id": fields.text(nullable=True, default=None),
        "provider_uuids": fields.list_of(fields.uuid(), default=[]),
        "in_tree": fields.uuid(nullable=True, default=None),
    }


@base.register
class RequestLevelParams(base.WireObject):
    """What is asked of the tree as a whole; usually empty."""

    VERSION = "1.1"
    fields = {
        "root_required": fields.set_of(fields.text(), default=set()),
        "root_forbidden": fields.set_of(fields.text(), default=set()),
        "same_subtree": fields.list_of(fields.list_of(fields.text()), default=[]),
    }


_REBUILD_HINT = "_nova_check_type"


@base.register
class RequestSpec(base.WireObject):
    """A scheduling request.

    ``"field" in spec`` tells whether a field was sent; reading one that was not gives None or its default
    where there is one (``flavor`` and ``instance_uuid`` have none).
    """

    VERSION = "1.15"
    fields = {
        "id": fields.integer(),
        "image": fields.nested("ImageMeta", nullable=True),
        "numa_topology": fields.nested("InstanceNUMATopology", nullable=True),
        "pci_requests": fields.nested("InstancePCIRequests", nullable=True),
        "project_id": fields.text(nullable=True),
        "user_id": fields.text(nullable=True),
        "availability_zone": fields.text(nullable=True),
        "flavor": fields.nested("Flavor"),
        "num_instances": fields.integer(default=1),
        "ignore_hosts": fields.list_of(fields.text(), nullable=True),
        "force_hosts": fields.list_of(fields.text(), nullable=True),
        "force_nodes": fields.list_of(fields.text(), nullable=True),
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

    @property
    def vcpus(self):
        """Virtual CPUs of one instance."""
        return self.flavor.vcpus

    @property
    def memory_mb(self):
        """Memory of one instance in MiB."""
        return self.flavor.memory_mb

    @property
    def root_gb(self):
        """Root disk of one instance in GiB."""
        return self.flavor.root_gb

    @property
    def ephemeral_gb(self):
        """Ephemeral disk of one instance in GiB."""
        return self.flavor.ephemeral_gb

    @property
    def swap(self):
        """Swap disk of one instance in MiB."""
        return self.flavor.swap

    @property
    def root_required(self):
        """Traits that the root provider must have."""
        return self.request_level_params.root_required

    @property
    def root_forbidden(self):
        """Traits that the root provider must not have."""
        return self.request_level_params.root_forbidden

    @property
    def same_subtree(self):
        """Lists of group suffixes whose providers must share a subtree."""
        return self.request_level_params.same_subtree

    @property
    def is_rebuild(self):
        """Whether only the current host is to be checked for a rebuild with a new image.

        A conductor adds the hint and forces the current host. The hint alone can come from a user, whose boot
        request must not be answered without a claim (spec: wire-and-config 1.5).
        """
        hint = (self.scheduler_hints or {}).get(_REBUILD_HINT)
        return hint == ["rebuild"] and bool(self.force_hosts)

    @property
    def maps_requested_resources(self):
        """Whether there are request groups that have to be mapped to providers."""
        return bool(self.requested_resources)

    def get_scheduler_hint(self, hint_name, default=None):
        """The value of a hint; a list of one element is unwrapped."""
        value = (self.scheduler_hints or {}).get(hint_name, default)
        return value[0] if isinstance(value, list) and len(value) == 1 else value

    def get_request_group_mapping(self):
        """Requester id -> provider UUIDs of each request group; None (not ``{}``) if none was sent."""
        if self.requested_resources is None:
            return None
        return {group.requester_id: group.provider_uuids for group in self.requested_resources}

    @classmethod
    def from_primitives(cls, context, request_spec, filter_properties):
        """A request from the two dicts that callers before version 4.3 send.

        Raises ``InvalidRequest`` if a value does not suit its field.
        """
        return legacy.request_from_dicts(cls, context, request_spec, filter_properties)

    def to_legacy_request_spec_dict(self):
        """The first of the two dicts; legacy notifications carry it."""
        return legacy.request_spec_dict(self)

    def to_legacy_filter_properties_dict(self):
        """The second of the two dicts."""
        return legacy.filter_properties_dict(self)
