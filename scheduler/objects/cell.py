"""Cells as they are named in requests. Source: spec wire-and-config 3.11."""

from scheduler.objects import base, fields

CELL0_UUID = "00000000-0000-0000-0000-000000000000"


@base.register
class CellMapping(base.WireObject):
    """One cell. The URLs hold passwords: they must reach no log and no notification."""

    VERSION = "1.1"
    CELL0_UUID = CELL0_UUID
    fields = {
        "id": fields.integer(read_only=True),
        "uuid": fields.uuid(),
        "name": fields.text(nullable=True),
        "transport_url": fields.secret(),
        "database_connection": fields.secret(),
        "disabled": fields.boolean(default=False),
        **base.TIMESTAMPS,
    }

    @property
    def identity(self):
        """A name for log lines."""
        return f"{self.uuid}({self.name})" if self.name else self.uuid

    def is_cell0(self):
        """Whether this is the graveyard of instances that were never scheduled."""
        return self.uuid == CELL0_UUID
