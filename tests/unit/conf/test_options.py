"""All options, as a table: group, name, type, default (spec: wire-and-config 6)."""

import pathlib
import re

from oslo_config import cfg
import pytest

from scheduler import conf as options
from scheduler.conf import registry, small_groups

SAMPLE = pathlib.Path(__file__).parents[3] / "etc" / "berth-scheduler.conf.sample"

FILTERS = [
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
]

NOVA = [
    ("DEFAULT", "transport_url", cfg.StrOpt, "rabbit://"),
    ("DEFAULT", "control_exchange", cfg.StrOpt, "nova"),
    ("DEFAULT", "rpc_response_timeout", cfg.IntOpt, 60),
    ("DEFAULT", "long_rpc_timeout", cfg.IntOpt, 1800),
    ("DEFAULT", "executor_thread_pool_size", cfg.IntOpt, 64),
    ("DEFAULT", "rpc_ping_enabled", cfg.BoolOpt, False),
    ("DEFAULT", "tempdir", cfg.StrOpt, None),
    ("DEFAULT", "report_interval", cfg.IntOpt, 10),
    ("DEFAULT", "service_down_time", cfg.IntOpt, 60),
    ("DEFAULT", "servicegroup_driver", cfg.StrOpt, "db"),
    ("DEFAULT", "periodic_enable", cfg.BoolOpt, True),
    ("DEFAULT", "periodic_fuzzy_delay", cfg.IntOpt, 60),
    ("DEFAULT", "default_availability_zone", cfg.StrOpt, "nova"),
    ("DEFAULT", "initial_cpu_allocation_ratio", cfg.FloatOpt, 4.0),
    ("DEFAULT", "initial_ram_allocation_ratio", cfg.FloatOpt, 1.0),
    ("DEFAULT", "initial_disk_allocation_ratio", cfg.FloatOpt, 1.0),
    ("DEFAULT", "cpu_allocation_ratio", cfg.FloatOpt, None),
    ("DEFAULT", "ram_allocation_ratio", cfg.FloatOpt, None),
    ("DEFAULT", "disk_allocation_ratio", cfg.FloatOpt, None),
    ("DEFAULT", "graceful_shutdown_timeout", cfg.IntOpt, 180),
    ("DEFAULT", "manager_shutdown_timeout", cfg.IntOpt, 160),
    ("DEFAULT", "log_options", cfg.BoolOpt, True),
    ("DEFAULT", "backdoor_port", cfg.StrOpt, None),
    ("DEFAULT", "backdoor_socket", cfg.StrOpt, None),
    ("DEFAULT", "debug", cfg.BoolOpt, False),
    ("DEFAULT", "log_config_append", cfg.StrOpt, None),
    ("DEFAULT", "log_file", cfg.StrOpt, None),
    ("DEFAULT", "log_dir", cfg.StrOpt, None),
    ("DEFAULT", "use_syslog", cfg.BoolOpt, False),
    ("DEFAULT", "use_journal", cfg.BoolOpt, False),
    ("DEFAULT", "use_json", cfg.BoolOpt, False),
    ("DEFAULT", "use_stderr", cfg.BoolOpt, False),
    ("DEFAULT", "log_rotation_type", cfg.StrOpt, "none"),
    ("DEFAULT", "publish_errors", cfg.BoolOpt, False),
    ("DEFAULT", "rate_limit_burst", cfg.IntOpt, 0),
    ("DEFAULT", "fatal_deprecations", cfg.BoolOpt, False),
    ("scheduler", "max_attempts", cfg.IntOpt, 3),
    ("scheduler", "discover_hosts_in_cells_interval", cfg.IntOpt, -1),
    ("scheduler", "max_placement_results", cfg.IntOpt, 1000),
    ("scheduler", "workers", cfg.IntOpt, None),
    ("scheduler", "query_placement_for_routed_network_aggregates", cfg.BoolOpt, False),
    ("scheduler", "limit_tenants_to_placement_aggregate", cfg.BoolOpt, False),
    ("scheduler", "placement_aggregate_required_for_tenants", cfg.BoolOpt, False),
    ("scheduler", "query_placement_for_image_type_support", cfg.BoolOpt, False),
    ("scheduler", "enable_isolated_aggregate_filtering", cfg.BoolOpt, False),
    ("scheduler", "image_metadata_prefilter", cfg.BoolOpt, False),
    ("filter_scheduler", "host_subset_size", cfg.IntOpt, 1),
    ("filter_scheduler", "max_io_ops_per_host", cfg.IntOpt, 8),
    ("filter_scheduler", "max_instances_per_host", cfg.IntOpt, 50),
    ("filter_scheduler", "available_filters", cfg.MultiStrOpt, ["nova.scheduler.filters.all_filters"]),
    ("filter_scheduler", "enabled_filters", cfg.ListOpt, FILTERS),
    ("filter_scheduler", "weight_classes", cfg.ListOpt, ["nova.scheduler.weights.all_weighers"]),
    ("filter_scheduler", "ram_weight_multiplier", cfg.FloatOpt, 1.0),
    ("filter_scheduler", "cpu_weight_multiplier", cfg.FloatOpt, 1.0),
    ("filter_scheduler", "disk_weight_multiplier", cfg.FloatOpt, 1.0),
    ("filter_scheduler", "hypervisor_version_weight_multiplier", cfg.FloatOpt, 1.0),
    ("filter_scheduler", "num_instances_weight_multiplier", cfg.FloatOpt, 0.0),
    ("filter_scheduler", "image_props_weight_multiplier", cfg.FloatOpt, 0.0),
    ("filter_scheduler", "image_props_weight_setting", cfg.ListOpt, []),
    ("filter_scheduler", "io_ops_weight_multiplier", cfg.FloatOpt, -1.0),
    ("filter_scheduler", "pci_weight_multiplier", cfg.FloatOpt, 1.0),
    ("filter_scheduler", "soft_affinity_weight_multiplier", cfg.FloatOpt, 1.0),
    ("filter_scheduler", "soft_anti_affinity_weight_multiplier", cfg.FloatOpt, 1.0),
    ("filter_scheduler", "build_failure_weight_multiplier", cfg.FloatOpt, 1000000.0),
    ("filter_scheduler", "cross_cell_move_weight_multiplier", cfg.FloatOpt, 1000000.0),
    ("filter_scheduler", "shuffle_best_same_weighed_hosts", cfg.BoolOpt, False),
    ("filter_scheduler", "image_properties_default_architecture", cfg.StrOpt, None),
    ("filter_scheduler", "isolated_images", cfg.ListOpt, []),
    ("filter_scheduler", "isolated_hosts", cfg.ListOpt, []),
    ("filter_scheduler", "restrict_isolated_hosts_to_isolated_images", cfg.BoolOpt, True),
    ("filter_scheduler", "aggregate_image_properties_isolation_namespace", cfg.StrOpt, None),
    ("filter_scheduler", "aggregate_image_properties_isolation_separator", cfg.StrOpt, "."),
    ("filter_scheduler", "pci_in_placement", cfg.BoolOpt, False),
    ("metrics", "weight_multiplier", cfg.FloatOpt, 1.0),
    ("metrics", "weight_setting", cfg.ListOpt, []),
    ("metrics", "required", cfg.BoolOpt, True),
    ("metrics", "weight_of_unavailable", cfg.FloatOpt, -10000.0),
    ("notifications", "notification_format", cfg.StrOpt, "unversioned"),
    ("notifications", "versioned_notifications_topics", cfg.ListOpt, ["versioned_notifications"]),
    ("pci", "alias", cfg.MultiStrOpt, []),
    ("compute", "packing_host_numa_cells_allocation_strategy", cfg.BoolOpt, False),
    ("workarounds", "disable_fallback_pcpu_query", cfg.BoolOpt, False),
    ("workarounds", "disable_compute_service_check_for_ffu", cfg.BoolOpt, False),
]

OTHERS = [
    ("service_user", "send_service_user_token", False),
    ("service_user", "auth_type", None),
    ("neutron", "http_retries", 3),
    ("neutron", "service_type", "network"),
    ("neutron", "valid_interfaces", ["internal", "public"]),
    ("placement", "auth_type", None),
    ("placement", "auth_section", None),
    ("placement", "service_type", "placement"),
    ("placement", "service_name", None),
    ("placement", "region_name", None),
    ("placement", "valid_interfaces", ["internal", "public"]),
    ("placement", "endpoint_override", None),
    ("placement", "connect_retries", None),
    ("placement", "status_code_retries", None),
    ("placement", "timeout", None),
    ("placement", "cafile", None),
    ("placement", "insecure", False),
    ("database", "connection", None),
    ("database", "max_retries", 10),
    ("api_database", "connection", None),
    ("api_database", "retry_interval", 10),
    ("oslo_messaging_notifications", "driver", []),
    ("oslo_messaging_notifications", "topics", ["notifications"]),
    ("oslo_messaging_rabbit", "rabbit_quorum_queue", False),
    ("oslo_messaging_rabbit", "rabbit_transient_queues_ttl", 1800),
    ("oslo_concurrency", "lock_path", None),
    ("oslo_reports", "log_dir", None),
    ("oslo_reports", "file_event_handler_interval", 1),
    ("berth", "host_state_max_age", None),
    ("berth", "cell_timeout", 10.0),
    ("berth", "outage_patience", 60.0),
    ("berth", "unread_cell_max_age", 600.0),
]

# What rules read at each request, and what is safe to change while requests are in progress
MUTABLE = {
    "DEFAULT": {"debug", "log_config_append", "service_down_time"},
    "scheduler": {
        "max_attempts",
        "max_placement_results",
        "query_placement_for_routed_network_aggregates",
        "limit_tenants_to_placement_aggregate",
        "placement_aggregate_required_for_tenants",
        "query_placement_for_image_type_support",
        "enable_isolated_aggregate_filtering",
        "image_metadata_prefilter",
    },
    "metrics": {"weight_multiplier", "weight_setting", "required", "weight_of_unavailable"},
}

# Each of these holds state or a connection that is made once
IMMUTABLE = {
    "DEFAULT": {"host", "transport_url", "report_interval", "servicegroup_driver"},
    "scheduler": {"workers", "discover_hosts_in_cells_interval"},
}


@pytest.fixture(scope="module")
def conf():
    return options.load([], default_config_files=[])


def option(conf, group, name):
    registered = conf if group == "DEFAULT" else conf._groups[group]
    return registered._opts[name]["opt"]


def value(conf, group, name):
    return conf[name] if group == "DEFAULT" else conf[group][name]


@pytest.mark.parametrize(("group", "name", "kind", "default"), NOVA)
def test_every_nova_option_has_its_type_and_default(conf, group, name, kind, default):
    assert isinstance(option(conf, group, name), kind)
    assert value(conf, group, name) == default


@pytest.mark.parametrize(("group", "name", "default"), OTHERS)
def test_every_other_option_has_its_default(conf, group, name, default):
    assert value(conf, group, name) == default


@pytest.mark.parametrize(("group", "names"), MUTABLE.items())
def test_mutable(conf, group, names):
    assert {name for name in names if not option(conf, group, name).mutable} == set()


@pytest.mark.parametrize(("group", "names"), IMMUTABLE.items())
def test_immutable(conf, group, names):
    assert {name for name in names if option(conf, group, name).mutable} == set()


def test_weights_filters_and_limits_may_change_at_run_time(conf):
    fixed = {name for name in conf.filter_scheduler if not option(conf, "filter_scheduler", name).mutable}
    assert fixed == set()


def test_default_log_levels_are_nova_s(conf):
    assert conf.default_log_levels[-2:] == ["glanceclient=WARN", "oslo.privsep.daemon=INFO"]
    assert "amqp=WARN" in conf.default_log_levels


def test_every_option_has_a_help_text():
    assert [o.name for _group, found in options.list_opts() for o in found if not o.help] == []


def test_options_of_one_object_do_not_show_in_another():
    first, second = options.new(), options.new()
    first.set_default("control_exchange", "other")
    first.set_default("max_attempts", 9, group="scheduler")
    assert second.control_exchange == "nova"
    assert second.scheduler.max_attempts == 3


def test_the_sample_shows_every_option():
    shown = SAMPLE.read_text()
    wanted = {o.dest for _group, found in options.list_opts() for o in found}
    assert {name for name in wanted if f"#{name} =" not in shown} == set()


def test_the_sample_says_of_our_options_what_they_say():
    """If not: tox -e genconfig."""
    shown = re.sub(r"[\s#]+", "", SAMPLE.read_text())
    ours = [option for module in registry.MODULES for option in module.OPTS]
    ours += [option for options in small_groups.GROUPS.values() for option in options]
    assert [o.name for o in ours if re.sub(r"[\s#]+", "", o.help) not in shown] == []


def test_the_sample_shows_nova_s_defaults_of_library_options():
    shown = SAMPLE.read_text()
    assert "#control_exchange = nova\n" in shown
    assert "#graceful_shutdown_timeout = 180\n" in shown


def test_the_sample_can_be_read():
    conf = options.load(["--config-file", str(SAMPLE)])
    assert conf.scheduler.max_attempts == 3
