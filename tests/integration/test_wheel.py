"""The wheel and the Debian package, built from the last commit and installed where nothing else of this project is."""

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


@pytest.mark.package
@pytest.mark.skipif(not shutil.which("dpkg-buildpackage"), reason="dpkg-dev is not installed")
def test_the_debian_package_installs_a_program_that_starts_and_is_removed_whole(installed, tmp_path):
    source = tmp_path / "source"
    run("git", "clone", "-q", ROOT, source)
    # Its libraries come from the running environment: to install them takes a minute
    options = {"PYTHON": sys.executable, "PIP_OPTIONS": "--no-deps --no-build-isolation"}
    options["DPKG_DEB_COMPRESSOR_TYPE"] = "none"
    build = environment() | options | {"PYTHONPATH": os.pathsep.join(site.getsitepackages())}
    run("dpkg-buildpackage", "-us", "-uc", "-b", "-d", cwd=source, env=build)
    (package,) = tmp_path.glob("*.deb")
    root = tmp_path / "root"
    (root / "var/lib/dpkg/updates").mkdir(parents=True)
    (root / "var/lib/dpkg/info").mkdir()
    (root / "var/lib/dpkg/status").touch()
    before = files_of(root)
    # There is nothing in the root that its scripts could be run by
    force = ["--force-not-root", "--force-depends", "--force-script-chrootless"]
    dpkg = ["dpkg", f"--root={root}", *force, "--log=/dev/null"]
    run(*dpkg, "--install", package)
    program = root / "opt/berth/bin/berth-scheduler"
    assert program.read_text().splitlines()[0] == "#!/opt/berth/bin/python"
    assert (root / "lib/systemd/system/berth-scheduler.service").exists()
    packages = sysconfig.get_path("purelib", vars={"base": str(root / "opt/berth")})
    dependencies = pathlib.Path(packages, "dependencies.pth")
    dependencies.write_text("\n".join(site.getsitepackages()))
    python = [root / "opt/berth/bin/python"]
    version = run(*python, program, "--version", cwd=tmp_path, env=environment())
    assert version.strip() == "0.1.0"
    assert list((root / "opt/berth/lib").rglob("*.pyc")), "which nobody may write later"
    (root / "var/lib/berth").mkdir()
    (root / "var/lib/berth/capacity.html").touch()
    dependencies.unlink()
    run(*dpkg, "--purge", "berth-scheduler")
    assert files_of(root) == before


def files_of(root):
    return {path for path in root.rglob("*") if path.is_file() and "var/lib/dpkg" not in str(path)}
