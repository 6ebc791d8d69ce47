"""The reply and its limits, and earlier attempts to schedule a request (spec: wire-and-config 3.3, 3.13)."""

from oslo_versionedobjects import base as ovo

from scheduler.objects import base, fields


@base.register
class NUMATopologyLimits(base.WireObject):
    """Allocation ratios for the NUMA fit on the compute.

    ``network_metadata`` is set only if the RequestSpec has it.
    """

    VERSION = "1.1"
    fields = {
        "cpu_allocation_ratio": fields.number(),
        "ram_allocation_ratio": fields.number(),
        "network_metadata": fields.nested("NetworkMetadata"),
    }


@base.register
class SchedulerLimits(base.WireObject):
    """Limits for the compute; null is no limit."""

    VERSION = "1.0"
    fields = {
        "numa_topology": fields.nested("NUMATopologyLimits", nullable=True, default=None),
        **fields.each("vcpu disk_gb memory_mb", fields.integer(nullable=True, default=None)),
    }

    @classmethod
    def from_dict(cls, limits_dict):
        """Return the limits in a plain dict; missing ones are null."""
        return cls(**{name: limits_dict.get(name) for name in cls.fields})

    def to_dict(self):
        """Return the limits that are not null as a plain dict."""
        return {name: value for name, value in self.set_fields() if value is not None}


@base.register
class SchedulerRetries(base.WireObject):
    """The number of earlier attempts to build the instance, and their hosts."""

    VERSION = "1.1"
    fields = {
        "num_attempts": fields.integer(),
        "hosts": fields.nested("ComputeNodeList"),
    }

    @classmethod
    def from_dict(cls, context, retry_dict):
        """Return the retries in the legacy form; without a list of hosts all fields stay unset."""
        if "hosts" not in retry_dict:
            return cls()
        pairs = retry_dict["hosts"]
        nodes = [ComputeNode(context, host=host, hypervisor_hostname=node) for host, node in pairs]
        return cls(num_attempts=retry_dict.get("num_attempts"), hosts=ComputeNodeList(context, objects=nodes))

    def to_dict(self):
        """Return the legacy form: ``{"num_attempts": 1, "hosts": [["host", "node"]]}``."""
        pairs = [[node.host, node.hypervisor_hostname] for node in self.hosts]
        return {"num_attempts": self.num_attempts, "hosts": pairs}


@base.register
class ComputeNode(base.WireObject):
    """A compute node in ``retry``; its other fields are never sent to a scheduler."""

    VERSION = "1.19"
    fields = {
        "id": fields.integer(),
        "uuid": fields.uuid(),
        "host": fields.text(nullable=True),
        "hypervisor_hostname": fields.text(nullable=True),
    }


ComputeNodeList = base.wire_list("ComputeNodeList", "1.17", "ComputeNode")


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
        **fields.each(
            "allocation_request allocation_request_version availability_zone", fields.text(nullable=True)
        ),
    }

    def to_dict(self):
        """Return the plain dict for callers that do not want objects."""
        limits = self.limits.to_dict() if self.limits else {}
        if "numa_topology" in limits:
            limits["numa_topology"] = limits["numa_topology"].obj_to_primitive()
        return {"host": self.service_host, "nodename": self.nodename, "limits": limits}
