"""Options that read as those in use, but for some."""

import pytest

from scheduler.conf.changed import ChangedOptions, read_changes
from scheduler.errors import ConfigError
from tests.support.options import make_conf

ZONE = "DEFAULT.default_availability_zone"


def test_a_changed_option_has_its_new_value_and_others_theirs():
    conf = make_conf(cpu_weight_multiplier=3.0)
    changed = ChangedOptions(conf, read_changes({"ram_weight_multiplier": "-1", "metrics.required": "false"}))
    assert changed.filter_scheduler.ram_weight_multiplier == -1.0
    assert changed.filter_scheduler["ram_weight_multiplier"] == -1.0
    assert changed["filter_scheduler"].cpu_weight_multiplier == 3.0
    assert changed.metrics.required is False
    assert changed.scheduler.max_attempts == conf.scheduler.max_attempts
    assert conf.filter_scheduler.ram_weight_multiplier == 1.0


def test_values_are_read_as_in_a_file():
    assert read_changes({"enabled_filters": "A,B", "scheduler.max_attempts": "7", ZONE: "z"}) == {
        ("filter_scheduler", "enabled_filters"): ["A", "B"],
        ("scheduler", "max_attempts"): 7,
        ("DEFAULT", "default_availability_zone"): "z",
    }
    assert read_changes({"available_filters": "a.B"}) == {("filter_scheduler", "available_filters"): ["a.B"]}
    assert ChangedOptions(make_conf(), read_changes({ZONE: "z"})).default_availability_zone == "z"


@pytest.mark.parametrize(
    ("setting", "text", "words"),
    [
        ("no_such_option", "1", "There is no option [filter_scheduler]/no_such_option"),
        ("nowhere.max_attempts", "1", "There is no option [nowhere]/max_attempts"),
        ("placement.auth_url", "http://x", "[placement]/auth_url does not decide between hosts"),
        ("compute.sharing_providers_max_uuids_per_request", "1", "does not decide between hosts"),
        ("ram_weight_multiplier", "much", "[filter_scheduler]/ram_weight_multiplier"),
        ("placement.password", "guess", "[placement]/password does not decide between hosts"),
        ("database.connection", "sqlite://", "[database]/connection does not decide between hosts"),
        ("api_database.connection", "sqlite://", "[api_database]/connection does not decide between hosts"),
    ],
)
def test_wrong_settings_are_refused(setting, text, words):
    with pytest.raises(ConfigError) as caught:
        read_changes({setting: text})
    assert words in str(caught.value)
