"""The reply: the host for an instance (spec: wire-and-config 3.13)."""

from oslo_versionedobjects import base as ovo

from scheduler.objects import base, fields


@base.register
class Selection(ovo.ComparableVersionedObject, base.WireObject):
    """One chosen host, or an alternate.

    ``allocation_request`` is the JSON text of Placement's allocation request; without one it is ``null``.
    """

    VERSION = "1.1"
    fields = {
        "compute_node_uuid": fields.uuid(),
        "service_host": fields.text(),
        "nodename": fields.text(),
        "cell_uuid": fields.uuid(),
        "limits": fields.nested("SchedulerLimits", nullable=True),
        "allocation_request": fields.text(nullable=True),
        "allocation_request_version": fields.text(nullable=True),
        "availability_zone": fields.text(nullable=True),
    }

    def to_dict(self):
        """Return the plain dict for callers that do not want objects."""
        limits = self.limits.to_dict() if self.limits else {}
        if "numa_topology" in limits:
            limits["numa_topology"] = limits["numa_topology"].obj_to_primitive()
        return {"host": self.service_host, "nodename": self.nodename, "limits": limits}
