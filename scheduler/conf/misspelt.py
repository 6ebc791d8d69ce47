"""Options and groups in the files that do not exist: a misspelt or former one has no effect, so it is named.

One nova.conf serves several services. In Berth's own groups and in those of nova's scheduler every unknown
option is named, elsewhere only a name that is close to an option or a group that Berth knows, that is an
option of another group, or was one in older releases of nova.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from oslo_config import cfg

from scheduler.conf import keystone, partitions, registry, small_groups
from scheduler.conf.berth import GROUP
from scheduler.conf.files import sections
from scheduler.errors import did_you_mean, nearest

_MOVED = (
    "aggregate_image_properties_isolation_namespace",
    "aggregate_image_properties_isolation_separator",
    "disk_weight_multiplier",
    "io_ops_weight_multiplier",
    "isolated_hosts",
    "isolated_images",
    "max_instances_per_host",
    "max_io_ops_per_host",
    "ram_weight_multiplier",
    "restrict_isolated_hosts_to_isolated_images",
    "soft_affinity_weight_multiplier",
    "soft_anti_affinity_weight_multiplier",
)

#: Names in [DEFAULT] of older releases of nova for an option that nova does not have any more.
GONE = frozenset({"compute_scheduler_driver", "scheduler_driver"})

#: Names in [DEFAULT] of older releases, which nova does not read either, with group and name of today.
FORMER = {
    "scheduler_max_attempts": ("scheduler", "max_attempts"),
    "scheduler_available_filters": ("filter_scheduler", "available_filters"),
    "scheduler_default_filters": ("filter_scheduler", "enabled_filters"),
    "scheduler_host_subset_size": ("filter_scheduler", "host_subset_size"),
    "scheduler_weight_classes": ("filter_scheduler", "weight_classes"),
    **{name: ("filter_scheduler", name) for name in _MOVED},
}

#: Options of these groups that Berth does not need.
_NOT_READ = frozenset({"query_placement_for_availability_zone", "track_instance_changes"})

#: Groups where Berth knows all options that nova has.
WHOLE_GROUPS = ("scheduler", "filter_scheduler")

#: Groups whose options are looked for in other groups. Names of the others are common (timeout, username).
_HOMES = ("DEFAULT", *WHOLE_GROUPS, GROUP, *small_groups.GROUPS)

_ANY_PARTITION = f"{partitions.PREFIX}NAME"
_ROUGHLY = 0.6
_CLOSE = 0.75
# the names of nova and deployment tools are at most 0.86 close to one that Berth knows
_VERY_CLOSE = 0.88


def misspelt_options(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield a line for each option and each group of the files that was probably meant for Berth."""
    known = _known_names(conf)
    for path, groups in sections(conf):
        for group, names in groups.items():
            known_here = known.get(_group_of_options(group))
            remarks = _on_group(group, known) if known_here is None else _on_names(group, names, known)
            yield from (f"{path}: {remark}" for remark in remarks)
        if unknown := list(_foreign(groups, known)):
            listed = ", ".join(unknown)
            yield f"{path}: nova has no {listed}; only a class of yours that registers an option reads it"


def _foreign(groups: Mapping[str, Iterable[str]], known: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield options in the groups of nova's scheduler that are neither nova's nor a name close to one."""
    for group in WHOLE_GROUPS:
        for name in groups.get(group, ()):
            if name not in known[group] | _NOT_READ and not _hint(group, name, known):
                yield f"[{group}]/{name}"


def _known_names(conf: cfg.ConfigOpts) -> dict[str, set[str]]:
    """Return the names of all options by group, also their names of earlier releases."""
    known: dict[str, set[str]] = defaultdict(set)
    own = [(group, option) for group, option, _ in registry.registered(conf)]
    of_plugins = [(str(group), option) for group, options in keystone.list_opts() for option in options]
    of_partitions = [(_ANY_PARTITION, option) for option in partitions.OPTS]
    for group, option in (*own, *of_plugins, *of_partitions):
        known[group].add(option.dest)
        for earlier in option.deprecated_opts:
            known[earlier.group or group].add(earlier.name or option.dest)
    return known


def _group_of_options(group: str) -> str:
    """Return the group under which the options of a group in a file are known."""
    if group.lower().startswith(partitions.PREFIX):
        return _ANY_PARTITION
    return group if group == "DEFAULT" else group.lower()


def _on_group(group: str, known: Iterable[str]) -> Iterator[str]:
    if meant := _meant(group, known):
        yield f"the group [{group}] does not exist and is ignored; did you mean [{meant}]?"


def _meant(group: str, known: Iterable[str]) -> str:
    """Return the name that a group was probably meant to have; "" if it is none of those that Berth knows."""
    if nearest(group.lower(), [GROUP], _CLOSE):
        return GROUP
    begin, _, name = group.lower().replace("-", "_").rpartition("_")
    if name and nearest(f"{begin}_", [partitions.PREFIX], _CLOSE):
        return f"{partitions.PREFIX}{name}"
    by_lower_case = {name.lower(): name for name in known}
    return by_lower_case.get(nearest(group.lower(), by_lower_case, _VERY_CLOSE), "")


def _on_names(group: str, names: Iterable[str], known: Mapping[str, set[str]]) -> Iterator[str]:
    own = group.lower().startswith(GROUP)
    for name in names:
        plain = name.replace("-", "_")
        if group == "DEFAULT" and plain in GONE:
            yield (
                f"[DEFAULT]/{name} is of an older release of nova and is ignored; nova has no such option "
                "any more, and Berth reads [scheduler]/driver"
            )
        elif group == "DEFAULT" and plain in FORMER:
            yield (
                f"[DEFAULT]/{name} is a name of an older release of nova and is ignored; "
                f"today's is [{FORMER[plain][0]}]/{FORMER[plain][1]}"
            )
        elif name not in known[_group_of_options(group)] and ((hint := _hint(group, plain, known)) or own):
            yield f"[{group}]/{name} does not exist and is ignored{hint}"


def _hint(group: str, name: str, known: Mapping[str, set[str]]) -> str:
    """Return the end of a sentence on an option that a group does not have: the option that was meant."""
    here = _group_of_options(group)
    if homes := [f"[{home}]/{name}" for home in _HOMES if home != here and name in known[home]]:
        meant = " or ".join(homes)
        return did_you_mean(meant, [meant])
    own = group.lower().startswith(GROUP)
    return did_you_mean(name, known[here], _ROUGHLY if own else _VERY_CLOSE)
