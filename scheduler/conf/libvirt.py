"""[libvirt]: accepted for compatibility (spec: wire-and-config 6.5)."""

from oslo_config import cfg

GROUP = "libvirt"

OPTS = [
    cfg.ListOpt("hw_machine_type", help="Machine types by architecture. Scheduling does not use it."),
]
