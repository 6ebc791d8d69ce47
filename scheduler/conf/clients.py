"""[glance] and [cinder]: only their debug switches, which change log levels (spec: wire-and-config 6.5)."""

from oslo_config import cfg

GROUPS = ("glance", "cinder")

OPTS = [
    cfg.BoolOpt("debug", default=False, help="Log what the client library of this service does."),
]
