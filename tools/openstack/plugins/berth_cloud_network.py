"""A mechanism driver that binds each port on each host, because no agent runs there."""

from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins.ml2 import api


class AnyHost(api.MechanismDriver):
    """Ports are ACTIVE as soon as they have a host."""

    def initialize(self):
        """There is nothing to prepare."""

    def bind_port(self, context):
        """Bind the port to the first segment of its network."""
        for segment in context.segments_to_bind:
            details = {portbindings.CAP_PORT_FILTER: True}
            context.set_binding(
                segment[api.ID], portbindings.VIF_TYPE_OVS, details, status=constants.PORT_STATUS_ACTIVE
            )
            return
