"""The options: nova.conf's, under their own names, and the group [berth] (spec: wire-and-config 6).

No options are global: ``load`` creates the object that is passed to everything else.

- loading: from a command line and files to options whose values are valid
- files, misspelt: the contents of the files; which options in them do not exist, or have another name today
- registry: all groups in one list
- default, scheduler, filter_scheduler, berth, rules, keystone, libraries, partitions: the large groups;
  small_groups: the others; kinds: options that a SIGHUP changes
- log_output: where log lines go
- derived: values that follow from several options, or from an option and the machine
- option_pairs: options that list pairs, such as ``name=ratio``
"""
# ruff: noqa: F401 - exported

from scheduler.conf.derived import caller_patience, drain_timeout, remarks, service_down_time
from scheduler.conf.libraries import set_library_defaults
from scheduler.conf.loading import (
    OF_COMMAND_LINE,
    PROG,
    check_files,
    load,
    new,
    reload,
    require_databases,
)
from scheduler.conf.misspelt import misspelt_options
from scheduler.conf.registry import list_opts
