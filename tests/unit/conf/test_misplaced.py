"""Options in a wrong group, and options that neither nova nor Berth has."""

import pytest

from scheduler import conf as options


@pytest.fixture
def remarks(tmp_path):
    """A function from the text of a file to the lines about its names, without the path."""

    def remarks(text):
        path = tmp_path / "nova.conf"
        path.write_text(text)
        lines = options.misspelt_options(options.load(["--config-file", str(path)]))
        return [line.removeprefix(f"{path}: ") for line in lines]

    return remarks


@pytest.mark.parametrize(
    ("group", "name", "home"),
    [
        ("filter_scheduler", "max_attempts", "scheduler"),
        ("filter_scheduler", "limit_tenants_to_placement_aggregate", "scheduler"),
        ("filter_scheduler", "discover_hosts_in_cells_interval", "scheduler"),
        ("filter_scheduler", "service_down_time", "DEFAULT"),
        ("scheduler", "host_subset_size", "filter_scheduler"),
        ("scheduler", "enabled_filters", "filter_scheduler"),
        ("scheduler", "ram_weight_multiplier", "filter_scheduler"),
        ("scheduler", "mirror_interval", "berth"),
        ("scheduler", "weight_setting", "metrics"),
        ("berth", "workers", "scheduler"),
        ("DEFAULT", "max_attempts", "scheduler"),
        ("DEFAULT", "enabled_filters", "filter_scheduler"),
        ("database", "transport_url", "DEFAULT"),
    ],
)
def test_an_option_in_a_wrong_group_is_named_with_its_group(remarks, group, name, home):
    assert remarks(f"[{group}]\n{name} = 1\n") == [
        f"[{group}]/{name} does not exist and is ignored; did you mean [{home}]/{name}?"
    ]


def test_options_of_a_fork_are_one_line(remarks):
    text = (
        "[filter_scheduler]\nexternal_scheduler_api_url = http://a\nexternal_scheduler_timeout = 5\n"
        "[scheduler]\nbigvm_reserve = 1\n"
    )
    (line,) = remarks(text)
    names, _, rest = line.removeprefix("nova has no ").partition("; ")
    assert names.split(", ") == [
        "[scheduler]/bigvm_reserve",
        "[filter_scheduler]/external_scheduler_api_url",
        "[filter_scheduler]/external_scheduler_timeout",
    ]
    assert rest == "only a class of yours that registers an option reads it"


@pytest.mark.parametrize(
    "text",
    [
        "[filter_scheduler]\ntrack_instance_changes = false\n",
        "[scheduler]\nmax_attempts = 5\n[filter_scheduler]\nhost_subset_size = 2\n",
        "[DEFAULT]\nosapi_compute_workers = 2\ninstances_path = /a\n",
        "[neutron]\nmetadata_proxy_shared_secret = a\nservice_metadata_proxy = true\n",
        "[own_rules]\nmax_attempts = 2\n",
    ],
)
def test_options_in_their_own_groups_are_not_named(remarks, text):
    assert remarks(text) == []
