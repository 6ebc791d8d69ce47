"""A filter that a fork keeps inside nova's package, with an option of its own."""

from nova.scheduler import filters
from oslo_config import cfg

CONF = cfg.CONF
CONF.register_opts([cfg.ListOpt("refused_hosts", default=[])], "zone_of_operator")


class RefusedHostFilter(filters.BaseHostFilter):
    """Rejects the hosts that an option names."""

    def host_passes(self, host_state, spec_obj):
        return host_state.host not in CONF.zone_of_operator.refused_hosts
