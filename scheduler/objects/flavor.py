"""Flavors (spec: wire-and-config 3.5)."""

from scheduler.objects import base, fields


@base.register
class Flavor(base.DictCompat, base.WireObject):
    """A flavor; ``memory_mb`` and ``swap`` in MiB, disks in GiB."""

    VERSION = "1.2"
    fields = {
        "id": fields.integer(),
        "name": fields.text(nullable=True),
        "memory_mb": fields.integer(),
        "vcpus": fields.integer(),
        "root_gb": fields.integer(),
        "ephemeral_gb": fields.integer(),
        "flavorid": fields.text(),
        "swap": fields.integer(),
        "rxtx_factor": fields.number(nullable=True, default=1.0),
        "vcpu_weight": fields.integer(nullable=True),
        "disabled": fields.boolean(),
        "is_public": fields.boolean(),
        "extra_specs": fields.dict_of(fields.text()),
        "projects": fields.list_of(fields.text()),
        "description": fields.text(nullable=True),
        **base.PERSISTENT,
    }
    lazy_defaults = {"extra_specs": dict}
