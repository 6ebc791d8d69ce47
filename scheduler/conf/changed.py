"""Options with some values replaced, to compare decisions."""

from collections.abc import Iterator, Mapping
from typing import Any

from oslo_config import cfg

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
}


class _Group(Mapping[str, Any]):
    """A group of options, some of them with other values."""

    def __init__(self, group: Any, values: Mapping[str, Any]) -> None:
        self._group = group
        self._values = values

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Any:
        return self._values[name] if name in self._values else self._group[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def __len__(self) -> int:
        return len(self._group)


class ChangedOptions:
    """The options in use with some values replaced. Read-only."""

    def __init__(self, conf: cfg.ConfigOpts, changes: Mapping[tuple[str, str], Any]) -> None:
        """Change values, by group and name; ``read_changes`` makes them of texts."""
        self._conf = conf
        self._groups: dict[str, dict[str, Any]] = {}
        for (group, name), value in changes.items():
            self._groups.setdefault(group, {})[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        own = self._groups.get("DEFAULT", {})
        if name in own:
            return own[name]
        found = getattr(self._conf, name)
        return _Group(found, self._groups[name]) if name in self._groups else found

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


def read_changes(settings: Mapping[str, str]) -> dict[tuple[str, str], Any]:
    """Return the values of options by group and name.

    Args:
        settings: Texts as in a configuration file by ``GROUP.NAME``, or ``NAME`` for one of
            ``[filter_scheduler]``.

    Raises:
        ConfigError: There is no such option, it does not decide, or the text is none of its values.
    """
    known = {
        (group or "DEFAULT", option.dest): option for group, options in list_opts() for option in options
    }
    found = {}
    for setting, text in settings.items():
        group, _, name = setting.rpartition(".")
        key = group or DEFAULT_GROUP, name
        if key not in known:
            raise ConfigError(f"There is no option [{key[0]}]/{name}")
        if key[0] not in DECIDING_GROUPS and key not in DECIDING_OPTIONS:
            raise ConfigError(f"[{key[0]}]/{name} does not decide between hosts, so it cannot be compared")
        try:
            value = known[key].type(text)
        except ValueError as error:
            raise ConfigError(f"[{key[0]}]/{name}: {error}") from error
        found[key] = [value] if known[key].multi else value
    return found
