"""The installation page and the systemd unit name the same program."""

import pathlib
import re

from scheduler.conf import berth

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_unit_starts_the_program_that_the_installation_page_installs():
    (program,) = re.findall(
        r"^ExecStart=(\S+)", (ROOT / "etc/berth-scheduler.service").read_text(), re.MULTILINE
    )
    page = (ROOT / "doc/source/install.rst").read_text()
    assert f"$ {program} --config-file" in page
    assert f"python3 -m venv {pathlib.PurePath(program).parents[1]}" in page


def test_the_image_runs_a_command_that_setup_installs_and_asks_where_it_is_told_to_listen():
    dockerfile = (ROOT / "Dockerfile").read_text()
    (command,) = re.findall(r'^ENTRYPOINT \["([^"]+)"\]', dockerfile, re.MULTILINE)
    assert f"{command} = scheduler.cmd.scheduler:main" in (ROOT / "setup.cfg").read_text()
    (address,) = re.findall(r"OS_BERTH__MONITORING_LISTEN=(\S+)", dockerfile)
    assert f"http://{address}/healthz" in dockerfile
    assert "monitoring_listen" in {option.dest for option in berth.OPTS}
    assert re.search(r"^USER nova$", dockerfile, re.MULTILINE)
