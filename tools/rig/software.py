"""Virtual environments with other services of OpenStack, which Berth's own does not have."""

from collections.abc import Sequence
from pathlib import Path
import sys

from tools.rig.service import run_program

#: What both schedulers are measured with. gunicorn serves Placement in processes, as operators' servers do.
REQUIREMENTS = ("nova==34.0.0", "openstack-placement==16.0.0", "PyMySQL", "gunicorn")


class Software:
    """A virtual environment with such services, by default ``REQUIREMENTS``."""

    def __init__(self, directory: Path, requirements: Sequence[str] = REQUIREMENTS) -> None:
        """Name the directory of the environment; ``make`` makes it."""
        self._directory = directory.absolute()
        self._requirements = requirements

    def make(self) -> None:
        """Make the environment, unless it exists with everything."""
        # pip installs all or nothing, and gunicorn is in each list
        if Path(self.program("gunicorn")).exists():
            return
        print(
            f"Making {self._directory} with {', '.join(self._requirements)}; this takes minutes", flush=True
        )
        run_program([sys.executable, "-m", "venv", self._directory])
        run_program([self.program("pip"), "-q", "install", *self._requirements])

    def program(self, name: str) -> str:
        """Return the path of a program of the environment."""
        return str(self._directory / "bin" / name)

    def run(self, name: str, *arguments: str, environment: dict[str, str]) -> None:
        """Run a program of the environment to its end; raises as ``run_program``."""
        run_program([self.program(name), *arguments], environment=environment)
