"""The commands in tools/: what all of them have in common."""

import importlib
import os
from pathlib import Path
import re
import subprocess
import sys

import pytest

from tools.bench.command import COMMANDS
from tools.rig.command import Parser
from tools.scenarios.__main__ import SCENARIOS

ROOT = Path(__file__).parents[3]
NAMES = {
    **{"tools/demo" if name == "demo" else f"tools/berth {name}": at for name, at in SCENARIOS.items()},
    **{f"tools/berth benchmark {name}": module for name, module in COMMANDS.items()},
}


@pytest.mark.parametrize("name", NAMES)
def test_each_scenario_says_what_it_takes_and_is_listed(name, capsys):
    with pytest.raises(SystemExit) as end:
        importlib.import_module(NAMES[name]).main(["--help"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {name} [-h]")
    assert re.search(rf"^``{name}[ `]", (ROOT / "doc/source/scenarios.rst").read_text(), re.MULTILINE)


@pytest.mark.parametrize("words", [[], ["gone"]], ids=["none", "one that does not exist"])
def test_without_a_scenario_all_are_named(words):
    environment = os.environ | {"BERTH_PYTHON": sys.executable}
    done = subprocess.run(
        [ROOT / "tools" / "berth", *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == f"usage: tools/berth SCENARIO [OPTION...], one of {', '.join(SCENARIOS)}\n"


def test_a_shared_option_has_the_type_of_its_default(tmp_path):
    parser = Parser("tools/some", None)
    parser.share(hosts=5, seconds=1.5, output=None)
    options = parser.parse_args(["--hosts", "7", "--output", str(tmp_path)])
    assert (options.hosts, options.seconds, options.output) == (7, 1.5, tmp_path)


@pytest.mark.parametrize(
    ("hosts", "said"), [("1", "is not from 2 to 9"), ("10", "is not from 2 to 9"), ("2", "")]
)
def test_an_option_beyond_its_bounds_is_refused(hosts, said, capsys):
    parser = Parser("tools/some", None)
    parser.share(hosts=5)
    options = parser.parse_args(["--hosts", hosts])
    if said:
        with pytest.raises(SystemExit):
            parser.bound(options, hosts=(2, 9))
        assert f"argument --hosts: {hosts} {said}" in capsys.readouterr().err
    else:
        parser.bound(options, hosts=(2, 9))
