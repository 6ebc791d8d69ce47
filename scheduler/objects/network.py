"""Networks, ports and security groups of a request (spec: wire-and-config 3.10)."""

from scheduler.objects import base, fields

AUTO = "auto"
NONE = "none"


@base.register
class NetworkRequest(base.WireObject):
    """One requested interface. ``network_id`` may be the word ``auto`` or ``none``."""

    VERSION = "1.3"
    fields = {
        **fields.each("network_id tag device_profile", fields.text(nullable=True)),
        "address": fields.address(nullable=True),
        **fields.each("port_id pci_request_id arq_uuid", fields.uuid(nullable=True)),
    }

    @property
    def auto_allocate(self):
        """Whether a network is created if there is none."""
        return self.network_id == AUTO

    @property
    def no_allocate(self):
        """Whether the instance gets no network."""
        return self.network_id == NONE


@base.register
class NetworkRequestList(base.WireList):
    """All requested interfaces."""

    VERSION = "1.1"
    fields = {"objects": fields.list_of(fields.nested("NetworkRequest"))}

    @property
    def auto_allocate(self):
        """Whether the only request is the word ``auto``."""
        return len(self) == 1 and self.objects[0].auto_allocate

    @property
    def no_allocate(self):
        """Whether the only request is the word ``none``."""
        return len(self) == 1 and self.objects[0].no_allocate

    @property
    def is_single_unspecified(self):
        """Whether there is one request, and all its fields are null."""
        if len(self) != 1:
            return False
        request = self.objects[0]
        return all(getattr(request, name) is None for name in request.fields)


@base.register
class NetworkMetadata(base.WireObject):
    """Physical networks and tunnels of a guest or a host cell, for NUMA affinity."""

    VERSION = "1.0"
    fields = {
        "physnets": fields.set_of(fields.text()),
        "tunneled": fields.boolean(),
    }


@base.register
class SecurityGroup(base.WireObject):
    """A security group; only notifications name it."""

    VERSION = "1.2"
    fields = {
        "id": fields.integer(),
        **fields.each("name description user_id project_id", fields.text()),
        "uuid": fields.uuid(),
        **base.PERSISTENT,
    }

    @property
    def identifier(self):
        """The UUID, or the name if there is no UUID."""
        return self.uuid if "uuid" in self else self.name


SecurityGroupList = base.wire_list("SecurityGroupList", "1.1", "SecurityGroup")
