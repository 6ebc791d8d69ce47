"""Other values of options, for berth-plan policy."""

import pytest

from scheduler.errors import ConfigError
from scheduler.operators.plan.policy import change
from tests.support.options import make_conf

ZONE = "DEFAULT.default_availability_zone"


def test_values_are_read_as_in_a_file():
    conf = make_conf()
    settings = {
        "ram_weight_multiplier": "-1",
        "metrics.required": "false",
        "enabled_filters": "A,B",
        "available_filters": "a.B",
        ZONE: "z",
    }
    assert change(conf, settings)[1:3] == [("metrics", "required"), ("filter_scheduler", "enabled_filters")]
    found = conf.filter_scheduler
    assert (found.ram_weight_multiplier, found.enabled_filters) == (-1.0, ["A", "B"])
    assert (conf.metrics.required, found.available_filters) == (False, ["a.B"])
    assert conf.default_availability_zone == "z"


@pytest.mark.parametrize(
    ("setting", "text", "words"),
    [
        ("no_such_option", "1", "There is no option [filter_scheduler]/no_such_option"),
        ("nowhere.max_attempts", "1", "There is no option [nowhere]/max_attempts"),
        ("placement.auth_url", "http://x", "[placement]/auth_url does not decide between hosts"),
        ("berth.cell_timeout", "1", "does not decide between hosts"),
        ("ram_weight_multiplier", "much", "[filter_scheduler]/ram_weight_multiplier"),
        ("placement.password", "guess", "[placement]/password does not decide between hosts"),
        ("database.connection", "sqlite://", "[database]/connection does not decide between hosts"),
        ("api_database.connection", "sqlite://", "[api_database]/connection does not decide between hosts"),
    ],
)
def test_wrong_settings_are_refused(setting, text, words):
    with pytest.raises(ConfigError) as caught:
        change(make_conf(), {setting: text})
    assert words in str(caught.value)
