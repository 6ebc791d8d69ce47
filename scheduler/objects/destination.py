"""Where a request has to go, or may not go. Source: spec wire-and-config 3.2."""

from scheduler.objects import base, fields


@base.register
class Destination(base.WireObject):
    """A host, node or cell that was asked for, and sets of aggregates.

    Each element of ``aggregates`` is a comma-joined set: any of the set, but all elements.
    """

    VERSION = "1.4"
    fields = {
        "host": fields.text(),
        "node": fields.text(nullable=True),
        "cell": fields.nested("CellMapping", nullable=True),
        "aggregates": fields.list_of(fields.text(), nullable=True, default=None),
        "allow_cross_cell_move": fields.boolean(default=False),
        "forbidden_aggregates": fields.set_of(fields.text(), nullable=True, default=None),
    }
    # never sent as null, but whoever asks for the host wants to know whether there is one
    lazy_defaults = {"host": lambda: None}
