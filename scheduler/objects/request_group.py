"""Groups of resources asked of Placement. Source: spec wire-and-config 3.4."""

import logging

import os_resource_classes

from scheduler.objects import base, fields

LOG = logging.getLogger(__name__)


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

    @classmethod
    def from_port_request(cls, context, port_uuid, port_resource_request):
        """The group of a port that asks for resources in one piece."""
        return cls._of_port(context, port_uuid, port_resource_request)

    @classmethod
    def from_extended_port_request(cls, context, port_resource_request):
        """The groups of a port that asks for resources in several pieces."""
        groups = port_resource_request.get("request_groups", ())
        return [cls._of_port(context, group["id"], group) for group in groups]

    @classmethod
    def _of_port(cls, context, requester_id, wanted):
        return cls(
            context,
            requester_id=requester_id,
            resources=wanted.get("resources", {}),
            required_traits=set(wanted.get("required", ())),
        )

    def add_resource(self, rclass, amount):
        """Ask for ``amount`` of a resource class; a wrong class or amount is logged and ignored."""
        if rclass not in os_resource_classes.STANDARDS and not rclass.startswith("CUSTOM_"):
            LOG.warning("Ignoring unknown resource class %s", rclass)
            return
        try:
            number = int(amount)
        except ValueError:
            number = -1
        if number < 0:
            LOG.warning("Ignoring resource class %s: %s is no amount", rclass, amount)
            return
        self.resources[rclass] = number

    def add_trait(self, trait_name, trait_type):
        """Require or forbid a trait; any other kind is logged and ignored."""
        traits = {"required": self.required_traits, "forbidden": self.forbidden_traits}.get(trait_type)
        if traits is None:
            LOG.warning(
                "Ignoring trait %s: only required and forbidden are possible, not %s", trait_name, trait_type
            )
            return
        traits.add(trait_name)

    def is_empty(self):
        """Whether the group asks for nothing."""
        return not (
            self.resources
            or self.required_traits
            or self.forbidden_traits
            or self.aggregates
            or self.forbidden_aggregates
        )

    def strip_zeros(self):
        """Drop resources of which nothing is asked."""
        for rclass in [name for name, amount in self.resources.items() if amount == 0]:
            del self.resources[rclass]

    def to_queryparams(self):
        """The group as pairs of Placement's query string, in a settled order."""
        suffix = self.requester_id or ""
        resources = ",".join(f"{name}:{amount}" for name, amount in sorted(self.resources.items()))
        traits = sorted(self.required_traits) + [f"!{name}" for name in sorted(self.forbidden_traits)]
        params = [(f"resources{suffix}", resources)]
        if traits:
            params.append((f"required{suffix}", ",".join(traits)))
        params += sorted((f"member_of{suffix}", "in:" + ",".join(sorted(ids))) for ids in self.aggregates)
        if self.in_tree:
            params.append((f"in_tree{suffix}", self.in_tree))
        if self.forbidden_aggregates:
            params.append((f"member_of{suffix}", "!in:" + ",".join(sorted(self.forbidden_aggregates))))
        return params


@base.register
class RequestLevelParams(base.WireObject):
    """What is asked of the tree as a whole; usually empty."""

    VERSION = "1.1"
    fields = {
        "root_required": fields.set_of(fields.text(), default=set()),
        "root_forbidden": fields.set_of(fields.text(), default=set()),
        "same_subtree": fields.list_of(fields.list_of(fields.text()), default=[]),
    }

    @classmethod
    def from_port_request(cls, port_resource_request):
        """The parameters that a port brings along."""
        subtree = port_resource_request.get("same_subtree")
        return cls(same_subtree=[subtree] if subtree else [])

    def extend_with(self, other):
        """Add what ``other`` asks."""
        self.root_required = self.root_required | other.root_required
        self.root_forbidden = self.root_forbidden | other.root_forbidden
        self.same_subtree = self.same_subtree + other.same_subtree
