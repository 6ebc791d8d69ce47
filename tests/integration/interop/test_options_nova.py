"""The options that Berth reads are nova's, with nova's types, defaults, limits and old names."""

import pytest

from scheduler import conf as options
from tests.integration.interop.options_nova import of

pytestmark = pytest.mark.interop

#: Not in nova's sample: of the libraries' own, of the command line, or of Berth.
UNLISTED_GROUPS = {"berth", "oslo_messaging_metrics", "oslo_messaging_tracing"}
UNLISTED = {
    "DEFAULT": {"config_file", "config_dir", "config_source", "shell_completion", "check_config", "strict"},
    "api_database": {"use_db_reconnect"},
    "placement": {"version", "min_version", "max_version", "interface"},
    "scheduler": {"driver"},  # of older releases of nova
    "neutron": {"version", "min_version", "max_version", "interface"},
}

#: What a machine or an installation gives.
LOCAL = {
    "DEFAULT/pybasedir",
    "DEFAULT/host",
    "oslo_messaging_rabbit/heartbeat_timeout_threshold",  # so that callers outlast a frozen scheduler
    "oslo_messaging_rabbit/hostname",
    "oslo_messaging_rabbit/processname",
}


@pytest.fixture(scope="module")
def theirs(nova):
    return nova.run("options_nova")


def facts(registered, name):
    entry = registered[name]
    return of(entry["opt"], entry.get("default", entry["opt"].default))


@pytest.fixture(scope="module")
def ours():
    conf = options.load([], default_config_files=[])
    groups = {"DEFAULT": conf._opts} | {name: group._opts for name, group in conf._groups.items()}
    return {
        f"{group}/{name}": facts(registered, name)
        for group, registered in groups.items()
        if group not in UNLISTED_GROUPS
        for name in registered.keys() - UNLISTED.get(group, set())
    }


def test_berth_has_no_option_that_nova_has_not(theirs, ours):
    assert ours.keys() - theirs.keys() == set()


@pytest.mark.parametrize("fact", ["kind", "type", "default", "limits", "choices", "old", "secret"])
def test_they_are_the_same(theirs, ours, fact):
    exempt = LOCAL if fact == "default" else set()
    different = {
        name: (theirs[name][fact], ours[name][fact])
        for name in (ours.keys() & theirs.keys()) - exempt
        if theirs[name][fact] != ours[name][fact]
    }
    assert different == {}


def test_what_nova_reloads_berth_reloads(theirs, ours):
    assert {
        name for name, one in theirs.items() if one["mutable"] and name in ours and not ours[name]["mutable"]
    } == set()


def test_no_option_of_nova_is_taken_for_a_misspelt_one(theirs, tmp_path):
    groups = {}
    for name in theirs:
        group, _, option = name.partition("/")
        groups.setdefault(group, []).append(option)
    path = tmp_path / "nova.conf"
    path.touch()
    conf = options.load(["--config-file", str(path)])
    path.write_text("\n".join(f"[{group}]\n" + "=\n".join(names) + "=" for group, names in groups.items()))
    assert len(groups) > 40
    assert not list(options.misspelt_options(conf))
