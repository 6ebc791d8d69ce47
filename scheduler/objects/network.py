"""Networks, ports and security groups of a request (spec: wire-and-config 3.10)."""

from scheduler.objects import base, fields


@base.register
class NetworkRequest(base.WireObject):
    """One requested interface. ``network_id`` may be the word ``auto`` or ``none``."""

    VERSION = "1.3"
    fields = {
        **fields.each("network_id tag device_profile", fields.text(nullable=True)),
        "address": fields.address(nullable=True),
        **fields.each("port_id pci_request_id arq_uuid", fields.uuid(nullable=True)),
    }


NetworkRequestList = base.wire_list("NetworkRequestList", "1.1", "NetworkRequest")


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
