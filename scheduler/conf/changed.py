"""Other values of options, to compare decisions."""

from collections.abc import Mapping

from oslo_config import cfg

from scheduler.conf import rules
from scheduler.conf.registry import list_opts
from scheduler.errors import ConfigError

#: The group of an option that is named without one.
DEFAULT_GROUP = "filter_scheduler"

#: Groups and options that decide between hosts. Only these can be compared: others, such as the names of
#: servers, change no decision.
DECIDING_GROUPS = {"filter_scheduler", "scheduler", "metrics"}
DECIDING_OPTIONS = {
    ("compute", "packing_host_numa_cells_allocation_strategy"),
    ("DEFAULT", "default_availability_zone"),
    *((rules.GROUP, option.dest) for option in rules.OPTS),
}


def change(conf: cfg.ConfigOpts, settings: Mapping[str, str]) -> list[tuple[str, str]]:
    """Give options other values, and return their groups and names.

    Args:
        settings: Texts as in a configuration file by ``GROUP.NAME``, or ``NAME`` for one of
            ``[filter_scheduler]``.

    Raises:
        ConfigError: There is no such option, it does not decide, or the text is none of its values.
    """
    known = {
        (group or "DEFAULT", option.dest): option for group, options in list_opts() for option in options
    }
    changed = []
    for setting, text in settings.items():
        group, _, name = setting.rpartition(".")
        key = group or DEFAULT_GROUP, name
        if key not in known:
            raise ConfigError(f"There is no option [{key[0]}]/{name}")
        if key[0] not in DECIDING_GROUPS and key not in DECIDING_OPTIONS:
            raise ConfigError(f"[{key[0]}]/{name} does not decide between hosts, so it cannot be compared")
        try:
            value = [text] if known[key].multi else text
            conf.set_override(name, value, None if key[0] == "DEFAULT" else key[0])
        except ValueError as error:
            raise ConfigError(f"[{key[0]}]/{name}: {error}") from error
        changed.append(key)
    return changed
