"""Host aggregates (spec: wire-and-config 3.11)."""

from scheduler.objects import base, fields


@base.register
class Aggregate(base.WireObject):
    """A set of hosts with metadata; null or missing ``hosts`` and ``metadata`` read as empty."""

    VERSION = "1.3"
    fields = {
        "id": fields.integer(),
        "uuid": fields.uuid(),
        "name": fields.text(),
        "hosts": fields.list_of(fields.text(), default=[]),
        "metadata": fields.dict_of(fields.text(), default={}),
        **base.PERSISTENT,
    }

    @property
    def availability_zone(self):
        """The availability zone of the hosts of the aggregate, or None."""
        return self.metadata.get("availability_zone")


@base.register
class AggregateList(base.WireList):
    """Several aggregates."""

    VERSION = "1.3"
    fields = {"objects": fields.list_of(fields.nested("Aggregate"))}
