"""The installation page and the systemd unit name the same program."""

import pathlib
import re

import pytest

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


UNITS = sorted((ROOT / "etc").glob("*.service"))
#: Directives that are of one service: what it is, when it ends, and where it writes.
OF_ONE = re.compile(
    r"Type|NotifyAccess|Timeout\w+|Watchdog\w+|Restart\w*|SuccessExitStatus|Exec\w+|KillMode|Limit\w+|Nice"
    r"|Environment|RuntimeDirectory\w*|StateDirectory\w*|ReadWritePaths"
)


def directives(unit):
    service = unit.read_text().split("[Service]")[1].split("[Install]")[0]
    return [line for line in service.splitlines() if re.match(r"\w+=", line)]


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_each_unit_starts_a_command_that_setup_installs_in_the_same_sandbox(unit):
    commands = re.findall(r"^ {4}(\S+) = scheduler\.", (ROOT / "setup.cfg").read_text(), re.MULTILINE)
    started = re.findall(r"^ExecStart=/opt/berth/bin/(\S+)", unit.read_text(), re.MULTILINE)
    assert set(started) <= set(commands)
    assert started
    sandbox = [[line for line in directives(each) if not OF_ONE.match(line)] for each in (unit, UNITS[0])]
    assert sandbox[0] == sandbox[1]


@pytest.mark.parametrize(
    "path", [*UNITS, *sorted((ROOT / "etc").glob("*.timer"))], ids=lambda path: path.name
)
def test_each_unit_is_in_the_wheel_and_stopped_when_the_package_is_removed(path):
    assert f"        etc/{path.name}\n" in (ROOT / "setup.cfg").read_text()
    (stopped,) = re.findall(r"for unit in (.*); do", (ROOT / "debian/berth-scheduler.prerm").read_text())
    timer = path.with_suffix(".timer")
    assert (timer if timer.exists() else path).name in stopped.split()


def test_what_timers_start_writes_where_the_page_says():
    page = (ROOT / "doc/source/install.rst").read_text()
    for timer in (ROOT / "etc").glob("*.timer"):
        text = timer.with_suffix(".service").read_text()
        assert "StateDirectory=berth\n" in text
        files = re.findall(r"/var/lib/berth/(\S+)", text)
        assert files
        assert [name for name in files if name not in page] == []
