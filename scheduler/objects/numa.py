"""The NUMA topology of an instance (spec: wire-and-config 3.8)."""

import itertools

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

    @cpu_pinning.setter
    def cpu_pinning(self, pins):
        self.cpu_pinning_raw = None if pins is None else {str(guest): host for guest, host in pins.items()}

    @property
    def siblings(self):
        """The guest CPUs of each core, as a list of sets; empty if cores have one thread."""
        threads = self.cpu_topology.threads if self.cpu_topology else 0
        if not threads or threads == 1:
            return []
        cpus = iter(sorted(self.total_cpus))
        return [set(itertools.islice(cpus, threads)) for _ in range(len(self) // threads)]

    def clear_host_pinning(self):
        """Remove the host cell and the pins."""
        self.id = -1
        self.cpu_pinning = {}


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

    @property
    def cpu_pinning(self):
        """The pinned host CPUs of all cells, as one set."""
        pins = (cell.cpu_pinning or {} for cell in self.cells)
        return set(itertools.chain.from_iterable(pinned.values() for pinned in pins))

    @property
    def cpuset_reserved(self):
        """The host CPUs reserved for emulator threads, of all cells."""
        return set().union(*(cell.cpuset_reserved or () for cell in self.cells))

    @property
    def emulator_threads_isolated(self):
        """Whether emulator threads get a host CPU of their own."""
        return self.emulator_threads_policy == "isolate"

    def clear_host_pinning(self):
        """Remove the host cells and the pins of all guest cells."""
        for cell in self.cells:
            cell.clear_host_pinning()
