"""The NUMA topology of an instance (spec: wire-and-config 3.8)."""

from scheduler.objects import base, fields


@base.register
class VirtCPUTopology(base.WireObject):
    """Sockets, cores and threads of the guest."""

    VERSION = "1.0"
    fields = fields.each("sockets cores threads", fields.integer(nullable=True, default=1))


@base.register
class InstanceNUMACell(base.DictCompat, base.WireObject):
    """One guest cell; ``memory`` in MiB, ``pagesize`` in KiB or -1 small, -2 large, -3 any."""

    VERSION = "1.6"
    ephemeral = True
    fields = {
        "id": fields.integer(),
        "cpuset": fields.set_of(fields.integer()),
        "pcpuset": fields.set_of(fields.integer()),
        "cpuset_reserved": fields.set_of(fields.integer(), nullable=True, default=None),
        "memory": fields.integer(),
        "pagesize": fields.integer(nullable=True, default=None),
        "cpu_topology": fields.nested("VirtCPUTopology", nullable=True),
        "cpu_pinning_raw": fields.dict_of(fields.integer(), nullable=True, default=None),
        "cpu_policy": fields.word("dedicated shared mixed", nullable=True, default=None),
        "cpu_thread_policy": fields.word("prefer isolate require", nullable=True, default=None),
    }
    lazy_defaults = {"pcpuset": set}
    cpuset: set[int]
    pcpuset: set[int]

    def _after_read(self):
        super()._after_read()
        # Before 1.5 all CPUs were in cpuset, pinned or not; the policy said which.
        older = self.obj_version_before("1.5") and "cpuset" in self and "pcpuset" not in self
        if older and self.cpu_policy == "dedicated":
            self.pcpuset, self.cpuset = self.cpuset, set()

    def __len__(self):
        return len(self.total_cpus)

    @property
    def total_cpus(self):
        """The ids of all guest CPUs of the cell."""
        return self.cpuset | self.pcpuset

    @property
    def cpu_pinning(self):
        """Guest CPU -> host CPU, or None if no CPU is pinned yet."""
        raw = self.cpu_pinning_raw
        return None if raw is None else {int(guest): host for guest, host in raw.items()}


@base.register
class InstanceNUMATopology(base.DictCompat, base.WireObject):
    """All guest cells; a topology without cells is false."""

    VERSION = "1.3"
    fields = {
        "id": fields.integer(),
        "instance_uuid": fields.uuid(),
        "cells": fields.list_of(fields.nested("InstanceNUMACell")),
        "emulator_threads_policy": fields.word("share isolate", nullable=True),
    }
    lazy_defaults = {"cells": list}

    def __len__(self):
        return len(self.cells)

    @property
    def cpu_policy(self):
        """The CPU policy of all cells, or None.

        Raises:
            InvalidField: The cells differ, which nova's API does not allow.
        """
        policies = {cell.cpu_policy for cell in self.cells}
        if len(policies) > 1:
            raise base.InvalidField("InstanceNUMATopology.cells", "the cells differ in cpu_policy")
        return policies.pop() if policies else None
