"""Instances as computes report them, server groups, aggregates (spec: wire-and-config 3.7, 3.11, 3.12)."""

from scheduler.objects import base, fields


@base.register
class Instance(base.DictCompat, base.WireObject):
    """An instance with the fields that rules read; the other sixty are not decoded.

    ``system_metadata`` has text keys; its values are text or null.
    """

    VERSION = "2.8"
    fields = {
        "uuid": fields.uuid(),
        "image_ref": fields.text(nullable=True),
        "system_metadata": fields.raw(nullable=True),
    }


InstanceList = base.wire_list("InstanceList", "2.6", "Instance")


@base.register
class InstanceGroup(base.DictCompat, base.WireObject):
    """A server group: its policy, its members and their hosts.

    ``hosts`` has no default: if it is unset, the hosts have to be read from the cell databases.
    """

    VERSION = "1.11"
    fields = {
        "id": fields.integer(),
        **fields.each("user_id project_id name policy", fields.text(nullable=True)),
        "uuid": fields.uuid(),
        "policies": fields.list_of(fields.text(), nullable=True),
        "members": fields.list_of(fields.text(nullable=True), nullable=True),
        "hosts": fields.list_of(fields.text(nullable=True), nullable=True),
        # rules are text on the wire, whence the underscore; see the property below
        "_rules": fields.dict_of(fields.text()),
        **base.PERSISTENT,
    }

    @property
    def rules(self):
        """The limits of the policy, as ``{"max_server_per_host": 2}`` or empty.

        Raises:
            InvalidField: The limit is no number.
        """
        limits = self._rules if "_rules" in self else {}
        if "max_server_per_host" not in limits:
            return {}
        try:
            return {"max_server_per_host": int(limits["max_server_per_host"])}
        except ValueError as error:
            raise base.InvalidField("InstanceGroup.rules", error) from error


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


AggregateList = base.wire_list("AggregateList", "1.3", "Aggregate")
