"""What is to be placed: the request that a conductor sends. Source: spec wire-and-config 3.1."""

from scheduler.objects import base, fields, legacy
from scheduler.objects.network import NetworkMetadata, NetworkRequestList, SecurityGroupList
from scheduler.objects.request_group import RequestLevelParams

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
        """Whether only the current host is to be checked for a rebuild with a new image."""
        return (self.scheduler_hints or {}).get(_REBUILD_HINT) == ["rebuild"]

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
