"""Groups of resources asked of Placement. Source: spec wire-and-config 3.4."""

from scheduler.objects import base, fields


@base.register
class RequestGroup(base.WireObject):
    """Resources, traits and aggregates that one provider, or several, are to have.

    Inner lists of ``aggregates`` are alternatives, the outer list demands all of them.
    """

    VERSION = "1.3"
    ephemeral = True
    fields = {
        "use_same_provider": fields.boolean(default=True),
        "resources": fields.dict_of(fields.integer(), default={}),
        "required_traits": fields.set_of(fields.text(), default=set()),
        "forbidden_traits": fields.set_of(fields.text(), default=set()),
        "aggregates": fields.list_of(fields.list_of(fields.text()), default=[]),
        "forbidden_aggregates": fields.set_of(fields.text(), default=set()),
        "requester_id": fields.text(nullable=True, default=None),
        "provider_uuids": fields.list_of(fields.uuid(), default=[]),
        "in_tree": fields.uuid(nullable=True, default=None),
    }


@base.register
class RequestLevelParams(base.WireObject):
    """What is asked of the tree as a whole; usually empty."""

    VERSION = "1.1"
    fields = {
        "root_required": fields.set_of(fields.text(), default=set()),
        "root_forbidden": fields.set_of(fields.text(), default=set()),
        "same_subtree": fields.list_of(fields.list_of(fields.text()), default=[]),
    }
