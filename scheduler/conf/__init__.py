"""The options: nova.conf's, under their own names, and the group [berth] (spec: wire-and-config 6).

One module a large group; ``small_groups`` has the others. No options are global: ``load`` creates the object
that is passed to everything else.
"""

from scheduler.conf.derived import caller_patience, drain_timeout, remarks, service_down_time, worker_count
from scheduler.conf.loading import (
    PROG,
    PROJECT,
    check_temporary_directory,
    load,
    new,
    reload,
    require_databases,
    validate,
)
from scheduler.conf.registry import list_opts, register, set_library_defaults

__all__ = [
    "PROG",
    "PROJECT",
    "caller_patience",
    "check_temporary_directory",
    "drain_timeout",
    "list_opts",
    "load",
    "new",
    "register",
    "reload",
    "remarks",
    "require_databases",
    "service_down_time",
    "set_library_defaults",
    "validate",
    "worker_count",
]
