"""PCI requests of an instance (spec: wire-and-config 3.9)."""

from scheduler.objects import base, fields


@base.register
class InstancePCIRequest(base.WireObject):
    """A request for ``count`` devices; each matches one of the alternatives in ``spec``."""

    VERSION = "1.4"
    FLAVOR_ALIAS = 0
    NEUTRON_PORT = 1
    fields = {
        "count": fields.integer(),
        "spec": fields.list_of(fields.dict_of(fields.text(nullable=True))),
        "alias_name": fields.text(nullable=True),
        "is_new": fields.boolean(default=False),
        "request_id": fields.uuid(nullable=True),
        "requester_id": fields.text(nullable=True),
        "numa_policy": fields.word("required legacy preferred socket", nullable=True),
    }

    @property
    def source(self):
        """The origin of the request; requests of neutron ports have no alias."""
        return self.NEUTRON_PORT if self.alias_name is None else self.FLAVOR_ALIAS

    def is_live_migratable(self):
        """Return whether each alternative says that its devices can be migrated live."""
        alternatives = self.spec if "spec" in self else None
        return alternatives is not None and all(
            each.get("live_migratable") == "true" for each in alternatives
        )


@base.register
class InstancePCIRequests(base.WireObject):
    """All PCI requests of an instance."""

    VERSION = "1.1"
    fields = {
        "instance_uuid": fields.uuid(),
        "requests": fields.list_of(fields.nested("InstancePCIRequest")),
    }
    lazy_defaults = {"requests": list}

    def neutron_requests(self):
        """Return True, as nova's method does whatever the requests are."""
        return True
