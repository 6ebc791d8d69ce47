"""README's installation and the systemd unit name the same program."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_unit_starts_the_program_that_readme_installs():
    (program,) = re.findall(
        r"^ExecStart=(\S+)", (ROOT / "etc/berth-scheduler.service").read_text(), re.MULTILINE
    )
    readme = (ROOT / "README.rst").read_text()
    assert f"$ {program} --config-file" in readme
    assert f"python3 -m venv {pathlib.PurePath(program).parents[1]}" in readme
