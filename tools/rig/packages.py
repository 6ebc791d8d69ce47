"""The Debian packages of this checkout, built in a system of a release that is not booted."""

from pathlib import Path
import shutil
from typing import NamedTuple

from tools.rig import debian

#: The Python of each release.
RELEASES = {"bookworm": "3.11", "trixie": "3.13"}
VERSIONS = ("0.1.0", "0.1.1")
ENTRY = """\
berth-scheduler ({version}) unstable; urgency=medium

  * The same program as the version before, with another number.

 -- Berth <maintainers@example.org>  Tue, 24 Nov 2026 12:00:00 +0000

"""


class Packages(NamedTuple):
    """The package of this checkout, and one of the next version; each in an archive of its own for apt."""

    this: Path
    following: Path


def build(cache: Path, release: str) -> Packages:
    """Build both packages; the system that builds them is kept in the cache."""
    root = cache / f"{release}-build"
    if not root.exists():
        debian.unpack(debian.bootstrap(cache, release, "build"), root)
    return Packages(*(_build(cache, release, root, version) for version in VERSIONS))


def _build(cache: Path, release: str, root: Path, version: str) -> Path:
    print(f"Building the package {version} on {release}", flush=True)
    shutil.rmtree(root / "build", ignore_errors=True)
    source = debian.copy_source(root / "build" / "berth-scheduler")
    changelog = source / "debian" / "changelog"
    if f"({version})" not in changelog.read_text():
        changelog.write_text(ENTRY.format(version=version) + changelog.read_text())
    build = f"cd /build/{source.name} && dpkg-buildpackage -us -uc -b -d"
    debian.run_inside(
        root,
        "sh",
        "-c",
        f"{build} && cd .. && dpkg-scanpackages . >Packages",
        binds={debian.wheels(cache, RELEASES[release]): "/wheels"},
        PIP_OPTIONS="--no-index --find-links /wheels -c constraints.txt",
        LC_ALL="C.UTF-8",
        DPKG_DEB_COMPRESSOR_LEVEL="0",  # to compress well takes longer than all the rest
    )
    shutil.rmtree(source)
    archive = cache / f"{release}-packages" / version
    shutil.rmtree(archive, ignore_errors=True)
    shutil.move(root / "build", archive)
    return next(archive.glob("*.deb"))
