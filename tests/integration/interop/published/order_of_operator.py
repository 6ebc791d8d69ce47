"""A weigher that a bank keeps inside nova's package."""

from nova.scheduler import weights


class NameLengthWeigher(weights.BaseHostWeigher):
    """Prefers hosts with long names."""

    def _weigh_object(self, host_state, weight_properties):
        return len(host_state.host)
