"""Names of older releases of nova, which nova itself does not read any more."""

import pytest

from scheduler import conf as options
from scheduler.conf.misspelt import FORMER
from tests.support.options import make_conf


def remarks(tmp_path, text):
    path = tmp_path / "nova.conf"
    path.write_text(text)
    return [line for line in options.remarks(options.load(["--config-file", str(path)])) if "older" in line]


@pytest.mark.parametrize(
    ("line", "today"),
    [
        ("scheduler_default_filters = ComputeFilter", "[filter_scheduler]/enabled_filters"),
        ("scheduler-available-filters = a.b", "[filter_scheduler]/available_filters"),
        ("scheduler_host_subset_size = 3", "[filter_scheduler]/host_subset_size"),
        ("ram_weight_multiplier = 2", "[filter_scheduler]/ram_weight_multiplier"),
    ],
)
def test_an_option_of_an_older_release_is_told_with_todays_name(tmp_path, line, today):
    (told,) = remarks(tmp_path, f"[DEFAULT]\n{line}\n")
    former = f"{tmp_path}/nova.conf: [DEFAULT]/{line.split()[0]} is a name of an older release of nova"
    assert told == f"{former} and is ignored; today's is {today}"


@pytest.mark.parametrize("name", ["scheduler_driver", "compute_scheduler_driver"])
def test_an_option_that_nova_does_not_have_any_more_is_named_so(tmp_path, name):
    (line,) = remarks(tmp_path, f"[DEFAULT]\n{name} = nova.scheduler.chance.ChanceScheduler\n")
    assert line.partition(": ")[2] == (
        f"[DEFAULT]/{name} is of an older release of nova and is ignored; nova has no such option any more, "
        "and Berth reads [scheduler]/driver"
    )


def test_names_of_today_are_not_told(tmp_path):
    text = (
        "[DEFAULT]\nhost = a\n[filter_scheduler]\nram_weight_multiplier = 2\n[scheduler]\nmax_attempts = 4\n"
    )
    assert remarks(tmp_path, text) == []


@pytest.mark.parametrize(
    ("driver", "today"),
    [
        ("nova.scheduler.chance.ChanceScheduler", "chance_scheduler"),
        ("nova.scheduler.caching_scheduler.CachingScheduler", "caching_scheduler"),
        ("nova.scheduler.filter_scheduler.FilterScheduler", "filter_scheduler"),
    ],
)
def test_a_driver_of_an_older_release_is_told_with_todays_name(tmp_path, driver, today):
    (line,) = remarks(tmp_path, f"[scheduler]\ndriver = {driver}\n")
    assert line == (
        f"[scheduler]/driver = {driver} is a name of an older release of nova; filter_scheduler is used. "
        f"Today's name is {today}"
    )


def test_todays_names_exist_and_the_former_ones_do_not():
    conf = make_conf()
    for former, (group, name) in FORMER.items():
        assert name in conf[group]
        assert former not in conf
