"""The wheel, built from the last commit and installed where nothing else of this project is."""

import configparser
import os
import pathlib
import shutil
import site
import subprocess
import sys
import sysconfig
import venv
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIP = (sys.executable, "-m", "pip")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a wheel is built from a checkout"),
]


def run(*command, **options):
    return ran(*command, **options).stdout


def ran(*command, **options):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=100, check=False, **options
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done


def commands():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["entry_points"]["console_scripts"].split("\n")
    return [line.partition("=")[0].strip() for line in lines if line]


def built(checkout, directory):
    """Build the wheel, and return its path."""
    stamp = run("git", "log", "-1", "--format=%ct", cwd=checkout).strip()
    options = ["-q", "--no-deps", "--no-build-isolation", "-w", directory]
    run(*PIP, "wheel", *options, checkout, env=environment() | {"SOURCE_DATE_EPOCH": stamp})
    (wheel,) = directory.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The directory of an environment with the wheel; it takes what that depends on from the running one."""
    directory = tmp_path_factory.mktemp("wheel")
    run("git", "clone", "-q", ROOT, directory / "checkout")
    wheel = built(directory / "checkout", directory)
    environment = directory / "environment"
    venv.create(environment)
    python = environment / "bin" / "python"
    run(*PIP, "--python", python, "install", "-q", "--no-deps", "--no-compile", wheel)
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
    """It imports all that it needs by itself: nothing is set up before."""
    shown = ran(installed / "bin" / command, "--help", cwd=tmp_path, env=environment())
    assert f"usage: {command} " in shown.stdout
    assert shown.stderr == ""


def test_samples_are_installed_as_they_are_in_the_checkout(installed):
    for name in ("berth-scheduler.conf.sample", "berth-logging.conf.sample"):
        assert (installed / "etc" / "berth" / name).read_text() == (ROOT / "etc" / name).read_text()


def test_every_file_of_the_packages_is_installed(installed):
    listed = run("git", "ls-files", "scheduler", "conductor_client", cwd=ROOT).split()
    packages = pathlib.Path(sysconfig.get_path("purelib", vars={"base": str(installed)}))
    assert [name for name in listed if (ROOT / name).exists() and not (packages / name).exists()] == []


def test_a_wheel_of_sources_without_git_has_every_file_too(installed, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(
        installed.parent / "checkout", source, ignore=shutil.ignore_patterns(".git", "build", "*.egg-info")
    )
    options = ["-q", "--no-deps", "--no-build-isolation", "-w", tmp_path]
    run(*PIP, "wheel", *options, source, env=environment() | {"PBR_VERSION": "0.1.0"})
    (wheel,) = tmp_path.glob("*.whl")
    listed = run(
        "git", "ls-files", "scheduler", "conductor_client", cwd=installed.parent / "checkout"
    ).split()
    assert set(listed) - set(zipfile.ZipFile(wheel).namelist()) == set()


def test_two_builds_of_one_commit_are_the_same(installed, tmp_path):
    (first,) = installed.parent.glob("*.whl")
    checkout = installed.parent / "checkout"
    shutil.rmtree(checkout / "build", ignore_errors=True)
    assert built(checkout, tmp_path).read_bytes() == first.read_bytes()
