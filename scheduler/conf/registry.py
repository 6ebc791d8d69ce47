"""All groups in one list, for the daemon and for the sample file."""

import pathlib
import socket

from scheduler.conf import (
    berth,
    clients,
    compute,
    default,
    filter_scheduler,
    keystone,
    libraries,
    libvirt,
    metrics,
    notifications,
    pci,
    scheduler,
    upgrade_levels,
    workarounds,
)

MODULES = (
    default,
    scheduler,
    filter_scheduler,
    metrics,
    berth,
    notifications,
    pci,
    compute,
    workarounds,
    upgrade_levels,
    libvirt,
)


def register(conf):
    """Register every option that Berth knows on ``conf``."""
    libraries.register(conf)
    for module in MODULES:
        conf.register_opts(module.OPTS, group=module.GROUP)
    for group in clients.GROUPS:
        conf.register_opts(clients.OPTS, group=group)
    keystone.register(conf)
    conf.set_default("host", socket.gethostname())
    conf.set_default("pybasedir", str(pathlib.Path(__file__).parents[2]))


def list_opts():
    """(group, options) pairs for oslo-config-generator."""
    own = [(module.GROUP, module.OPTS) for module in MODULES]
    debug = [(group, clients.OPTS) for group in clients.GROUPS]
    return [*own, *keystone.list_opts(), *libraries.list_opts(), *debug]


def set_library_defaults():
    """What oslo-config-generator calls so that the sample shows nova's defaults of library options."""
    libraries.set_library_defaults()
