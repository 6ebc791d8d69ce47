"""[upgrade_levels]: RPC version caps of callers (spec: wire-and-config 1.7)."""

from oslo_config import cfg

GROUP = "upgrade_levels"


def _cap(name, note):
    return cfg.StrOpt(name, help=f"RPC version cap for calls to the {name} service. {note}")


OPTS = [
    _cap("scheduler", "Read by callers of the scheduler, not by the daemon."),
    _cap("conductor", "The daemon does not read it: it never asks a conductor to convert an object."),
    _cap("baseapi", "The daemon does not read it."),
    _cap("compute", "The daemon does not read it."),
]
