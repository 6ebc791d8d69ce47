"""All option groups in one list, for the daemon and for the sample file."""

from collections.abc import Iterator
import pathlib
import socket
from typing import Any

from oslo_config import cfg
from oslo_utils import netutils

from scheduler.conf import (
    berth,
    default,
    filter_scheduler,
    keystone,
    libraries,
    partitions,
    rules,
    scheduler,
    small_groups,
)

MODULES = (default, scheduler, filter_scheduler, berth, rules)


def register(conf: cfg.ConfigOpts) -> None:
    libraries.register(conf)
    for group, options in _own():
        conf.register_opts(options, group=group)
    keystone.register(conf)
    conf.set_default("host", socket.gethostname())
    conf.set_default("my_ip", netutils.get_my_ipv4())
    conf.set_default("pybasedir", str(pathlib.Path(__file__).parents[2]))


def registered(conf: cfg.ConfigOpts) -> Iterator[tuple[str, cfg.Opt, Any]]:
    for info, group in conf._all_opt_infos():  # noqa: SLF001 - oslo.config shows names and values only
        option = info["opt"]
        yield group.name if group else "DEFAULT", option, info.get("default", option.default)


def list_opts() -> list[tuple[str | None, list[cfg.Opt]]]:
    """Return (group, options) pairs for oslo-config-generator."""
    partition = (f"{partitions.PREFIX}name", partitions.OPTS)
    return [*_own(), partition, *keystone.list_opts(), *libraries.list_opts()]


def _own() -> list[tuple[str | None, list[cfg.Opt]]]:
    return [*((module.GROUP, module.OPTS) for module in MODULES), *small_groups.GROUPS.items()]
