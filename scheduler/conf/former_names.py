"""Option names of older releases of nova. Neither nova nor Berth reads them: they have no effect."""

from collections.abc import Iterator

from oslo_config import cfg

from scheduler.conf.files import sections

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

#: Names in [DEFAULT], with group and name of today.
FORMER = {
    "compute_scheduler_driver": ("scheduler", "driver"),
    "scheduler_driver": ("scheduler", "driver"),
    "scheduler_max_attempts": ("scheduler", "max_attempts"),
    "scheduler_available_filters": ("filter_scheduler", "available_filters"),
    "scheduler_default_filters": ("filter_scheduler", "enabled_filters"),
    "scheduler_host_subset_size": ("filter_scheduler", "host_subset_size"),
    "scheduler_tracks_instance_changes": ("filter_scheduler", "track_instance_changes"),
    "scheduler_weight_classes": ("filter_scheduler", "weight_classes"),
    **{name: ("filter_scheduler", name) for name in _MOVED},
}

#: Values of [scheduler]/driver, with those of today.
FORMER_DRIVERS = {
    "nova.scheduler.caching_scheduler.CachingScheduler": "caching_scheduler",
    "nova.scheduler.chance.ChanceScheduler": "chance_scheduler",
    "nova.scheduler.filter_scheduler.FilterScheduler": "filter_scheduler",
}


def former_options(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield a line for each option in the files that has a name of an older release."""
    for path, groups in sections(conf):
        for name in groups.get("DEFAULT", ()):
            today = FORMER.get(name.replace("-", "_"))
            if today:
                yield (
                    f"{path}: [DEFAULT]/{name} is a name of an older release of nova and is ignored; "
                    f"today's is [{today[0]}]/{today[1]}"
                )
