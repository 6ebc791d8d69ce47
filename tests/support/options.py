"""Options for tests."""

from scheduler import conf as options
from scheduler.conf import partitions


def make_conf(**overrides):
    """Options as a new installation has them, but for these.

    ``group__name`` overrides an option of that group, ``name`` one of [filter_scheduler], ``_name`` one of [DEFAULT].
    """
    conf = options.new()
    conf([], project="test", default_config_files=[], default_config_dirs=[])
    for name, value in overrides.items():
        group, separator, option = name.rpartition("__")
        if name.startswith("_"):
            conf.set_override(name[1:], value)
        else:
            conf.set_override(option, value, group if separator else "filter_scheduler")
    return conf


def add_partition(conf, name, **values):
    """Add the section of a partition to options; values are those of its options."""
    partitions.register(conf, name)
    for option, value in values.items():
        conf.set_override(option, value, f"{partitions.PREFIX}{name}")
