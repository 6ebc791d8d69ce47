"""The Debian packages of this checkout, built in a system of a release that is not booted."""

import hashlib
from pathlib import Path
import shutil
from typing import NamedTuple

from tools.rig import debian

#: The Python of each release.
RELEASES = {"bookworm": "3.11", "trixie": "3.13"}
VERSIONS = ("0.1.0", "0.1.1")
#: Directories of the checkout that change nothing in a package.
NOT_PACKAGED = {"tools", "tests", "deploy", "examples", "releasenotes", "doc"}
#: What of ``doc`` is in a package all the same.
DOCUMENTS = ("install.rst", "shadow.rst", "swap.rst")
ENTRY = """\
berth-scheduler ({version}) unstable; urgency=medium

  * The same program as the version before, with another number.

 -- Berth <maintainers@example.org>  Tue, 24 Nov 2026 12:00:00 +0000

"""


class Packages(NamedTuple):
    """The package of this checkout, and one of the next version."""

    this: Path
    following: Path


def build(cache: Path, release: str) -> Packages:
    """Build each package, unless the cache has that of the same files."""
    source = debian.copy_source(_empty(cache / f"{release}-source") / "berth-scheduler")
    directory = cache / f"{release}-packages"
    directory.mkdir(exist_ok=True)
    root, found = cache / f"{release}-build", digest(source)
    if not root.exists():
        debian.unpack(debian.bootstrap(cache, release, "build"), root)
    for version in VERSIONS:
        stamp = directory / f"{version}.digest"
        if not (stamp.exists() and stamp.read_text() == found):
            stamp.unlink(missing_ok=True)
            _build(cache, release, source, version)
            (built,) = source.parent.glob(f"*_{version}_*.deb")
            built.rename(directory / built.name)
            stamp.write_text(found)
    shutil.rmtree(source.parent)
    return Packages(*(next(directory.glob(f"*_{version}_*.deb")) for version in VERSIONS))


def _build(cache: Path, release: str, source: Path, version: str) -> None:
    changelog = source / "debian" / "changelog"
    if f"({version})" not in changelog.read_text():
        changelog.write_text(ENTRY.format(version=version) + changelog.read_text())
    print(f"Building the package {version} on {release}", flush=True)
    root, inside = cache / f"{release}-build", Path("/build")
    shutil.rmtree(root / "build", ignore_errors=True)
    shutil.copytree(source.parent, root / "build")
    debian.run_inside(
        root,
        "sh",
        "-c",
        f"cd {inside}/{source.name} && dpkg-buildpackage -us -uc -b -d",
        binds={debian.wheels(cache, RELEASES[release]): "/wheels"},
        PIP_OPTIONS="--no-index --find-links /wheels -c constraints.txt",
        LC_ALL="C.UTF-8",
        DPKG_DEB_COMPRESSOR_LEVEL="0",  # to compress well takes longer than all the rest
    )
    for package in (root / "build").glob(f"*_{version}_*.deb"):
        shutil.move(package, source.parent / package.name)
    shutil.rmtree(root / "build")


def digest(source: Path) -> str:
    """Return a digest of what a package is made of."""
    found = hashlib.sha256()
    for path in sorted(source.rglob("*")):
        packaged = path.relative_to(source).parts[0] not in NOT_PACKAGED or path.name in DOCUMENTS
        if path.is_file() and packaged:
            found.update(str(path.relative_to(source)).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def _empty(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory
