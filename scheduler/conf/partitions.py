"""[berth_partition_NAME]: groups of hosts with schedulers of their own.

Their names are the operator's, so their options are registered once the files were read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
import re

from oslo_config import cfg

from scheduler.conf.berth import GROUP
from scheduler.conf.files import sections
from scheduler.errors import ConfigError, did_you_mean

PREFIX = "berth_partition_"

#: A request that fits nowhere is tried in all of them.
MOST_PARTITIONS = 40

#: Names of queues that are taken: those of all schedulers, of one host, and the decision stream.
_TAKEN = ("scheduler", "scheduler.", "berth.decisions")

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_TOPIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

OPTS = [
    cfg.ListOpt(
        "aggregates",
        default=[],
        help="Names or UUIDs of the host aggregates whose hosts belong to this partition. Set this, or "
        "cells, for each partition. With both, a host must be in one of the aggregates and in one of the "
        "cells.",
    ),
    cfg.ListOpt(
        "cells",
        default=[],
        help="Names or UUIDs of the cells whose hosts belong to this partition. Set it to divide the cloud "
        "by cells. Placement knows no cells: also put the hosts into an aggregate and name it in "
        "aggregates. Otherwise Placement offers the hosts of all cells to each partition.",
    ),
    cfg.ListOpt(
        "zones",
        default=[],
        help="Availability zones. berth-router tries this partition first for requests that name one of "
        "them. Set it if the hosts of a zone are in one partition.",
    ),
    cfg.ListOpt(
        "flavors",
        default=[],
        help="Names or IDs of flavors. berth-router tries this partition first for requests with one of "
        "them. Set it if only the hosts of this partition are for certain flavors.",
    ),
    cfg.ListOpt(
        "extra_specs",
        default=[],
        help="Extra specs of flavors, as KEY or KEY=VALUE. berth-router tries this partition first for "
        "requests whose flavor has one of them. Set it in place of flavors if there are many of them.",
    ),
    cfg.BoolOpt(
        "default",
        default=False,
        help="berth-router tries this partition first for requests with flavors that no partition names. "
        "Set it on the partition with most hosts of the common kind.",
    ),
    cfg.StrOpt(
        "topic",
        help="Queue from which the schedulers of this partition take requests. Set it if the rights on the "
        "broker allow other names only. Not set: berth.scheduler.NAME.",
    ),
]


@dataclass(frozen=True, slots=True)
class Partition:
    """A group of hosts with schedulers of its own, and which requests it is for.

    Attributes:
        name: Its name, in lower case.
        topic: Where its schedulers take requests.
        aggregates: Names or uuids of aggregates whose hosts belong to it; empty: hosts in any or none.
        cells: Names or uuids of cells whose hosts belong to it; empty: hosts of any.
        zones: Availability zones whose requests it is for.
        flavors: Names or ids of flavors that it is for.
        extra_specs: Extra specs of flavors that it is for; a value of None stands for any.
        default: Whether it is for the flavors that no partition names.
    """

    name: str
    topic: str
    aggregates: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    zones: frozenset[str] = frozenset()
    flavors: frozenset[str] = frozenset()
    extra_specs: tuple[tuple[str, str | None], ...] = ()
    default: bool = False

    @property
    def names_flavors(self) -> bool:
        """Whether it is for certain flavors."""
        return bool(self.flavors or self.extra_specs)


def register_sections(conf: cfg.ConfigOpts) -> None:
    """Register the options of each partition that the files of a parsed ``conf`` name.

    A section without any option counts as none: the sample file has one.
    """
    for _, groups in sections(conf):
        for group, names in groups.items():
            if names and group.lower().startswith(PREFIX):
                register(conf, group.lower().removeprefix(PREFIX))


def register(conf: cfg.ConfigOpts, name: str) -> None:
    conf.register_opts(OPTS, group=f"{PREFIX}{name}")


def problems(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield what is wrong with the partitions. Their values can be read."""
    groups = _groups(conf)
    for name, group in groups.items():
        yield from (f"[{PREFIX}{name}]{problem}" for problem in _problems(name, conf[group]))
    topics = [_topic(name, conf[group]) for name, group in groups.items()]
    for topic in sorted({topic for topic in topics if topics.count(topic) > 1}):
        yield f"[{PREFIX}*]/topic: several partitions have the topic {topic!r}"
    if len(groups) > MOST_PARTITIONS:
        yield f"[{PREFIX}*]: there are {len(groups)} partitions; at most {MOST_PARTITIONS} are allowed"
    yield from _problems_of_own(conf, groups)


def all_partitions(conf: cfg.ConfigOpts) -> tuple[Partition, ...]:
    return tuple(_partition(name, conf[group]) for name, group in sorted(_groups(conf).items()))


def own_partition(conf: cfg.ConfigOpts) -> Partition | None:
    """Return the partition that this scheduler serves; None: it serves all hosts.

    Raises:
        ConfigError: There is no partition of this name.
    """
    own = (conf.berth.partition or "").lower()
    if not own:
        return None
    for partition in all_partitions(conf):
        if partition.name == own:
            return partition
    raise ConfigError(_no_such_partition(own, _groups(conf)))


def own_name(conf: cfg.ConfigOpts) -> str:
    """Return the partition that this scheduler serves; "" for all hosts."""
    return (conf.berth.partition or "").lower()


def _groups(conf: cfg.ConfigOpts) -> dict[str, str]:
    """Return the group of each partition by its name."""
    return {str(group).removeprefix(PREFIX): str(group) for group in conf if str(group).startswith(PREFIX)}


def _partition(name: str, values: cfg.ConfigOpts.GroupAttr) -> Partition:
    return Partition(
        name,
        _topic(name, values),
        tuple(values.aggregates),
        tuple(values.cells),
        frozenset(values.zones),
        frozenset(values.flavors),
        tuple(_extra_spec(text) for text in values.extra_specs),
        values.default,
    )


def _topic(name: str, values: cfg.ConfigOpts.GroupAttr) -> str:
    return values.topic or f"berth.scheduler.{name}"


def _extra_spec(text: str) -> tuple[str, str | None]:
    key, separator, value = text.partition("=")
    return key.strip(), value.strip() if separator else None


def _problems(name: str, values: cfg.ConfigOpts.GroupAttr) -> Iterator[str]:
    if not _NAME.fullmatch(name):
        yield f": {name!r} is not a valid name of a partition: use at most 64 letters, digits, - and _"
    if not values.aggregates and not values.cells:
        yield ": neither aggregates nor cells is set, so it has no hosts"
    topic = _topic(name, values)
    if topic in _TAKEN or topic.startswith(_TAKEN[1]):
        yield f"/topic: {topic} is the queue of other schedulers; choose another name"
    elif not _TOPIC.fullmatch(topic):
        yield f"/topic: {topic!r} is not a valid topic: use letters, digits, '.', - and _"
    for text in values.extra_specs:
        if not _extra_spec(text)[0]:
            yield f"/extra_specs: {text!r} has no key; write KEY or KEY=VALUE"


def _problems_of_own(conf: cfg.ConfigOpts, groups: dict[str, str]) -> Iterator[str]:
    own = (conf.berth.partition or "").lower()
    if own and own not in groups:
        yield _no_such_partition(own, groups)


def _no_such_partition(name: str, groups: dict[str, str]) -> str:
    hint = did_you_mean(name, groups)
    return f"[{GROUP}]/partition: there is no [{PREFIX}{name}], or nothing is set in it{hint}"
