"""Instances as computes report them, reduced to what rules read. Source: spec wire-and-config 3.12."""

from scheduler.objects import base, fields


@base.register
class Instance(base.DictCompat, base.WireObject):
    """An instance; the other sixty fields that arrive are skipped undecoded.

    ``system_metadata`` is kept as it came: text keys, values text or null.
    """

    VERSION = "2.8"
    fields = {
        "uuid": fields.uuid(),
        "image_ref": fields.text(nullable=True),
        "system_metadata": fields.raw(nullable=True),
    }


@base.register
class InstanceList(base.WireList):
    """All instances of a host, or the one that changed."""

    VERSION = "2.6"
    fields = {"objects": fields.list_of(fields.nested("Instance"))}
