"""Cells as they are named in requests. Source: spec wire-and-config 3.11."""

from scheduler.objects import base, fields


@base.register
class CellMapping(base.WireObject):
    """One cell. The URLs hold passwords: they must reach no log and no notification."""

    VERSION = "1.1"
    fields = {
        "id": fields.integer(read_only=True),
        "uuid": fields.uuid(),
        "name": fields.text(nullable=True),
        "transport_url": fields.secret(),
        "database_connection": fields.secret(),
        "disabled": fields.boolean(default=False),
        **base.TIMESTAMPS,
    }
