"""What a scheduler gets from its machine and can be deprived of: a disk with room, and a right clock."""

from collections.abc import Iterator, Mapping
import contextlib
from pathlib import Path
import shutil
import struct
import subprocess

DISK_OPTIONS = "size=64m"
SOURCE = Path(__file__).with_name("clock.c")


class SmallDisk:
    """A directory that can be filled up: a small tmpfs.

    Attributes:
        path: The directory.
        mounted: Whether this machine lets it be a file system of its own; if not, it cannot be filled.
    """

    def __init__(self, path: Path, *, mounted: bool) -> None:
        """Describe a directory; see ``made``."""
        self.path = path
        self.mounted = mounted

    @classmethod
    @contextlib.contextmanager
    def made(cls, path: Path) -> Iterator["SmallDisk"]:
        """Make the directory; it is removed in the end."""
        path.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", DISK_OPTIONS, "tmpfs", str(path)]
        mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
        try:
            yield cls(path, mounted=mounted)
        finally:
            if mounted:
                subprocess.run(["umount", "-l", str(path)], check=True, capture_output=True)
            shutil.rmtree(path)

    def fill(self) -> None:
        """Leave no room."""
        with contextlib.suppress(OSError), (self.path / "full").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def empty(self) -> None:
        """Make room again."""
        (self.path / "full").unlink(missing_ok=True)


class Clock:
    """A wall clock that can jump, for the processes that are started with its environment.

    The monotonic clock goes on as it is.
    """

    def __init__(self, directory: Path) -> None:
        """Compile the library that is preloaded.

        Raises:
            OSError: There is no C compiler.
            CalledProcessError: The C compiler cannot compile it (subprocess).
        """
        self._file = directory / "clock-shift"
        self._library = directory / "clock.so"
        self.shift(0)
        command = ["cc", "-shared", "-fPIC", "-O2", "-o", str(self._library), str(SOURCE)]
        subprocess.run(command, check=True, capture_output=True)

    @classmethod
    def made(cls, directory: Path) -> "Clock | None":
        """Return a clock; None on a machine where it cannot be compiled."""
        try:
            return cls(directory)
        except (OSError, subprocess.CalledProcessError):
            return None

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that let a process use this clock."""
        return {"LD_PRELOAD": str(self._library), "BERTH_CLOCK_SHIFT": str(self._file)}

    def shift(self, seconds: int) -> None:
        """Let the clock differ from the right time by so many seconds from now on."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("=q", seconds))
