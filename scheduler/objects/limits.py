"""Limits that a compute is to honour, and what was tried before (spec: wire-and-config 3.3)."""

from scheduler.objects import base, fields


@base.register
class NUMATopologyLimits(base.WireObject):
    """Ratios for the NUMA fit on the chosen host; ``network_metadata`` is set only if the request's was."""

    VERSION = "1.1"
    fields = {
        "cpu_allocation_ratio": fields.number(),
        "ram_allocation_ratio": fields.number(),
        "network_metadata": fields.nested("NetworkMetadata"),
    }


@base.register
class SchedulerLimits(base.WireObject):
    """Limits by kind; null is no limit."""

    VERSION = "1.0"
    fields = {
        "numa_topology": fields.nested("NUMATopologyLimits", nullable=True, default=None),
        "vcpu": fields.integer(nullable=True, default=None),
        "disk_gb": fields.integer(nullable=True, default=None),
        "memory_mb": fields.integer(nullable=True, default=None),
    }

    @classmethod
    def from_dict(cls, limits_dict):
        """Limits from a plain dict; what it lacks is null."""
        return cls(**{name: limits_dict.get(name) for name in cls.fields})

    def to_dict(self):
        """The limits that are not null."""
        return {name: value for name, value in self.set_fields() if value is not None}


@base.register
class SchedulerRetries(base.WireObject):
    """How often the request was tried before, and where."""

    VERSION = "1.1"
    fields = {
        "num_attempts": fields.integer(),
        "hosts": fields.nested("ComputeNodeList"),
    }

    @classmethod
    def from_dict(cls, context, retry_dict):
        """Retries from the legacy form; it counts as given only if it has a list of hosts."""
        if "hosts" not in retry_dict:
            return cls()
        return cls(num_attempts=retry_dict.get("num_attempts"), hosts=_nodes(context, retry_dict["hosts"]))

    def to_dict(self):
        """The legacy form: ``{"num_attempts": 1, "hosts": [["host", "node"]]}``."""
        pairs = [[node.host, node.hypervisor_hostname] for node in self.hosts]
        return {"num_attempts": self.num_attempts, "hosts": pairs}


@base.register
class ComputeNode(base.WireObject):
    """A compute node as ``retry`` names it; its other fields never travel to a scheduler."""

    VERSION = "1.19"
    fields = {
        "id": fields.integer(),
        "uuid": fields.uuid(),
        "host": fields.text(nullable=True),
        "hypervisor_hostname": fields.text(nullable=True),
    }


@base.register
class ComputeNodeList(base.WireList):
    """Several compute nodes."""

    VERSION = "1.17"
    fields = {"objects": fields.list_of(fields.nested("ComputeNode"))}


def _nodes(context, pairs):
    nodes = [ComputeNode(context, host=host, hypervisor_hostname=node) for host, node in pairs]
    return ComputeNodeList(context, objects=nodes)
