"""Debian systems in directories: made from packages, booted with their own systemd, and run as programs."""

from collections.abc import Mapping, Sequence
import contextlib
import json
import os
from pathlib import Path
import shutil
import signal
import sys
from typing import Self

from tools.rig import servers
from tools.rig.service import ROOT, ServiceProcess, run_program

BOOT_TIMEOUT = 120
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Without a service manager on this side; it has the network of this machine, with its loopback.
NSPAWN = ("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--resolv-conf=off")
#: Of a variant, what is in it besides the essential packages.
PACKAGES = {
    # As a controller: nothing that only a build needs
    "controller": (
        *("systemd", "systemd-sysv", "dbus", "python3", "ca-certificates", "procps"),
        *("autopkgtest", "dpkg-dev"),  # which runs debian/tests
    ),
    "build": ("python3", "python3-venv", "ca-certificates", "dpkg-dev", "fakeroot"),
    # What images of Python have
    "image": ("python3", "python3-venv", "ca-certificates"),
    "rabbitmq": ("rabbitmq-server",),
}


def need(*programs: str) -> None:
    """Check that programs are installed.

    Raises:
        RuntimeError: One is not.
    """
    path = servers.path_of_servers()
    missing = [program for program in programs if not shutil.which(program, path=path)]
    if missing:
        raise RuntimeError(f"Not installed: {', '.join(missing)}")


def bootstrap(cache: Path, release: str, variant: str) -> Path:
    """Return an archive of a Debian release with the packages of a variant, which is made if need be."""
    archive = cache / f"{release}-{variant}.tar"
    made_of = cache / f"{archive.name}.packages"
    packages = json.dumps(PACKAGES[variant])
    if archive.exists() and made_of.exists() and made_of.read_text() == packages:
        return archive
    need("mmdebstrap")
    cache.mkdir(parents=True, exist_ok=True)
    print(f"Making {archive.name} from the packages of Debian; this takes minutes", flush=True)
    unfinished = archive.with_suffix(".part.tar")
    include = f"--include={','.join(PACKAGES[variant])}"
    run_program(["mmdebstrap", "--quiet", "--variant=minbase", include, release, str(unfinished)])
    unfinished.rename(archive)
    made_of.write_text(packages)
    return archive


def unpack(archive: Path, directory: Path) -> Path:
    """Unpack an archive into a new directory, and return it."""
    directory.mkdir(parents=True)
    run_program(["tar", "--numeric-owner", "-C", str(directory), "-xf", str(archive)])
    return directory


def wheels(cache: Path, python: str) -> Path:
    """Return a directory with the wheels of constraints.txt for a version of Python."""
    directory = cache / f"wheels-{python}"
    constraints = (ROOT / "constraints.txt").read_text()
    stamp = directory / "constraints.txt"
    if stamp.exists() and stamp.read_text() == constraints:
        return directory
    print(f"Downloading the wheels of constraints.txt for Python {python}", flush=True)
    program = [sys.executable, "-m", "pip", "download", "-q", "-d", str(directory)]
    platforms = [
        f"--platform={name}_x86_64"
        for name in ("manylinux_2_28", "manylinux2014", "manylinux_2_17", "manylinux1")
    ]
    only = ["--only-binary=:all:", "--python-version", python, *platforms]
    # pip would read the conditions of requirements for the Python that runs it
    run_program([*program, *only, "--no-deps", "-r", "constraints.txt"], cwd=ROOT)
    stamp.write_text(constraints)
    return directory


def copy_source(directory: Path) -> Path:
    """Copy the files of this checkout that git knows, as they are now, and return their new directory."""
    listed = run_program(["git", "ls-files", "-z"], cwd=ROOT).split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
    return directory


def run_inside(root: Path, *command: str, binds: Mapping[Path, str] | None = None, **variables: str) -> str:
    """Run a program in a system that is not booted, with directories mounted read only.

    Raises:
        RuntimeError: It fails; the text has the end of its output.
    """
    options = [f"--bind-ro={source}:{target}" for source, target in (binds or {}).items()]
    options += [f"--setenv={name}={value}" for name, value in variables.items()]
    return run_program([*NSPAWN, "--as-pid2", "--pipe", f"--directory={root}", *options, "--", *command])


class Machine(ServiceProcess):
    """A Debian system that runs with its own systemd, on the network of this machine; a context manager.

    Attributes:
        root: The directory of its files.
    """

    def __init__(self, root: Path) -> None:
        """Describe a machine; it is booted on entry."""
        self.root = root
        # With control groups of version 1, as this machine may have, its systemd does not learn that the last
        # process of a killed service has ended. No release of today boots with them.
        environment = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
        super().__init__(
            [*NSPAWN, "--boot", f"--directory={root}"], root.with_suffix(".console"), environment
        )

    def __enter__(self) -> Self:
        self.start()
        try:
            self.wait_until(self._booted, "The machine does not boot", BOOT_TIMEOUT)
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.running:
            self.stop()

    @property
    def shell(self) -> Sequence[str]:
        """The command that runs a shell command in it, which follows."""
        into = ("nsenter", "--all", "--target", str(self._init()), "--")
        return (*into, "env", "-i", f"PATH={PATH}", "LC_ALL=C.UTF-8", "bash", "-o", "pipefail", "-c")

    def run(self, line: str, allowed: Sequence[int] = (0,)) -> str:
        """Run a command in it by the shell, and return what it prints; raises as ``run_program``."""
        return run_program([*self.shell, line], allowed=allowed)

    def kill(self) -> None:
        """End it at once, with all of its processes."""
        with contextlib.suppress(RuntimeError):
            servers.signal_tree(self.pid, signal.SIGKILL)
        super().kill()

    def _init(self) -> int:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        if not children:
            raise RuntimeError("The machine does not run")
        return int(children[0])

    def _booted(self) -> bool:
        with contextlib.suppress(RuntimeError, FileNotFoundError):
            # "degraded" is for the caller to look at
            return self.run("systemctl is-system-running || true").strip() in {"running", "degraded"}
        return False
