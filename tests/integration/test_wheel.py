"""The wheel, built from the last commit and installed into an environment where nothing else of this project is."""

import configparser
import os
import pathlib
import site
import subprocess
import sys
import sysconfig
import venv

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a wheel is built from a checkout"),
]


def run(*command, **options):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=100, check=False, **options
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def commands():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["entry_points"]["console_scripts"].split("\n")
    return [line.partition("=")[0].strip() for line in lines if line]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The directory of an environment with the wheel; it takes what that depends on from the running one."""
    directory = tmp_path_factory.mktemp("wheel")
    run("git", "clone", "-q", ROOT, directory / "checkout")
    pip = [sys.executable, "-m", "pip"]
    run(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", directory, directory / "checkout")
    (wheel,) = directory.glob("*.whl")
    environment = directory / "environment"
    venv.create(environment)
    run(*pip, "--python", environment / "bin" / "python", "install", "-q", "--no-deps", wheel)
    packages = sysconfig.get_path("purelib", vars={"base": str(environment)})
    # Not the .pth files of the running environment, one of which may name this checkout
    pathlib.Path(packages, "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    return environment


def environment():
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def test_what_is_imported_is_what_was_installed(installed, tmp_path):
    show = "import scheduler, conductor_client; print(scheduler.__file__, conductor_client.__file__)"
    for path in run(installed / "bin" / "python", "-c", show, cwd=tmp_path, env=environment()).split():
        assert path.startswith(str(installed))


@pytest.mark.parametrize("command", commands())
def test_each_command_shows_its_help(installed, command, tmp_path):
    shown = run(installed / "bin" / command, "--help", cwd=tmp_path, env=environment())
    assert command in shown


def test_samples_are_installed_as_they_are_in_the_checkout(installed):
    for name in ("berth-scheduler.conf.sample", "berth-logging.conf.sample"):
        assert (installed / "etc" / "berth" / name).read_text() == (ROOT / "etc" / name).read_text()


def test_every_file_of_the_packages_is_installed(installed):
    listed = run("git", "ls-files", "scheduler", "conductor_client", cwd=ROOT).split()
    packages = pathlib.Path(sysconfig.get_path("purelib", vars={"base": str(installed)}))
    assert [name for name in listed if (ROOT / name).exists() and not (packages / name).exists()] == []
