"""The versions that Berth was tested with: that installed here of each package that it needs with any Python.

``python -m tools.constraints > constraints.txt``
"""

from collections.abc import Iterator
from importlib.metadata import distribution
import itertools
import pathlib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).resolve().parents[1]

#: Of the extras ``postgresql`` and ``run``.
EXTRAS = ("psycopg2-binary", "openstacksdk")
#: The versions of Python that Berth runs with: some requirements have only one of them.
PYTHONS = ("3.11", "3.12", "3.13")


def direct_requirements() -> list[Requirement]:
    """Return what requirements.txt lists."""
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def needed() -> dict[str, str]:
    """Return the version of each package that Berth needs, directly or not.

    Raises:
        importlib.metadata.PackageNotFoundError: A direct requirement is not installed.
    """
    versions: dict[str, str] = {}
    waiting = [*direct_requirements(), *map(Requirement, EXTRAS)]
    seen = set()
    while waiting:
        requirement = waiting.pop()
        extras = frozenset(requirement.extras)
        name = canonicalize_name(requirement.name)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found = distribution(name)
        versions[name] = found.version
        waiting.extend(_required_by(found.requires or [], extras))
    return dict(sorted(versions.items()))


def _required_by(lines: list[str], extras: frozenset[str]) -> Iterator[Requirement]:
    for requirement in map(Requirement, lines):
        if requirement.marker is None or any(map(requirement.marker.evaluate, _environments(extras))):
            yield requirement


def _environments(extras: frozenset[str]) -> Iterator[dict[str, str]]:
    for python, extra in itertools.product(PYTHONS, ("", *extras)):
        yield {"extra": extra, "python_version": python, "python_full_version": f"{python}.0"}


def main() -> None:
    """Print the constraints."""
    print("# Tested together. Made by: python -m tools.constraints")
    for name, version in needed().items():
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
