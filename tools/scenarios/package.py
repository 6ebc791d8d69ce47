"""The Debian package, judged by the distribution's own programs: lintian, piuparts and autopkgtest.

It is built on the release that it is for, with one of the next version. piuparts installs, upgrades and
purges it; autopkgtest runs debian/tests in a system that systemd-nspawn boots. So this needs root.
"""

import argparse
from collections.abc import Iterator
import contextlib
from pathlib import Path
import re
import shutil

from tools.rig import command, debian, packages
from tools.rig.service import ANY, ROOT, run_program

PASSED = "PASS: Installation, upgrade and purging tests."


def main(arguments: list[str] | None = None) -> int:
    """Build the package and let all judge it; return 1 if one finds an error."""
    parser = command.Parser("tools/berth package", __doc__)
    parser.share(directory=None)
    share_machines(parser)
    options = parser.parse_args(arguments)
    debian.need("mmdebstrap", "systemd-nspawn", "nsenter", "lintian", "piuparts")
    status = 0
    with (
        command.running("package", options.directory) as directory,
        built(options, directory) as (root, both),
    ):
        judges = {
            "lintian": lambda: lint(both),
            "piuparts": lambda: upgrade_and_purge(options.release, root, both, directory / "piuparts.log"),
            "autopkgtest": lambda: test(root, both),
        }
        for name, judge in judges.items():
            right, text = judge()
            print(f"{name}: {'right' if right else 'NOT AS PROMISED'}\n{text}", flush=True)
            status = status if right else 1
    return status


def share_machines(parser: command.Parser) -> None:
    """Add the options of what builds packages for a release."""
    parser.add("--release", "bookworm", "release of Debian", choices=sorted(packages.RELEASES))
    parser.add("--machines", command.MACHINES, "where systems, wheels and packages are kept", type=Path)


@contextlib.contextmanager
def built(options: argparse.Namespace, directory: Path) -> Iterator[tuple[Path, packages.Packages]]:
    """Give the files of a new system of the release, which are removed in the end, and the packages."""
    both = packages.build(options.machines, options.release)
    root = directory / options.release
    shutil.rmtree(root, ignore_errors=True)
    try:
        yield debian.unpack(debian.bootstrap(options.machines, options.release, "controller"), root), both
    finally:
        shutil.rmtree(root, ignore_errors=True)


def lint(both: packages.Packages) -> tuple[bool, str]:
    """Let lintian look at the package: no errors."""
    lines = run_program(["lintian", "--allow-root", str(both.this)], allowed=ANY).splitlines()
    kinds = sorted({" ".join(line.split()[:3:2]) for line in lines if line.startswith(("E:", "W:"))})
    return not any(line.startswith("E:") for line in lines), ", ".join(kinds) or "no errors and no warnings"


def upgrade_and_purge(release: str, root: Path, both: packages.Packages, log: Path) -> tuple[bool, str]:
    """Let piuparts install and purge the next version, alone and over this one: nothing is left."""
    archive = str(both.this.parent.absolute())
    options = ["--existing-chroot", str(root), "--distribution", release, "--bindmount", archive]
    options += ["--extra-repo", f"deb [trusted=yes] file://{archive} ./", "--log-file", str(log)]
    # No other package of the minimal system has /opt, so it goes with this one; the other directory is apt's
    options += ["--no-eatmydata", "--no-adequate", "--ignore=/opt/", "--ignore=/var/cache/debconf/tmp.ci/"]
    output = run_program(["piuparts", *options, str(both.following)], allowed=ANY)
    verdicts = re.findall(r"(?:PASS|FAIL): .*(?:\n  .*)*", output)
    return PASSED in verdicts and "FAIL:" not in output, "\n".join(verdicts) or output[-2000:]


def test(root: Path, both: packages.Packages) -> tuple[bool, str]:
    """Let autopkgtest run debian/tests in a system that is booted."""
    shutil.copytree(ROOT / "debian", root / "root" / "source" / "debian")
    shutil.copy(both.this, root / "root")
    with debian.Machine(root) as machine:
        line = f"cd /root && autopkgtest --no-built-binaries {both.this.name} source/ -- null 2>&1"
        output = machine.run(f"{line}; echo ended with $?", ANY)
    results = re.findall(r"^\w+ +(?:PASS|FAIL|SKIP).*", output.rpartition(" summary\n")[2], re.MULTILINE)
    right = bool(results) and output.rstrip().endswith("ended with 0")
    return right, "\n".join(results) if right else output[-3000:]
