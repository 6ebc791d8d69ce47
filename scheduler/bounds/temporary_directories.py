"""Private temporary directories that end with their process; those of killed ones, with the next process."""

import atexit
from collections.abc import Iterator
import fcntl
import os
from pathlib import Path
import shutil
import tempfile

#: How often it is tried to make a directory.
ATTEMPTS = 3


def make_temporary_directory(prefix: str, parent: str | None) -> Path:
    """Make a private directory, which is removed with this process.

    Those that killed processes have left are removed. To be called before the process forks: the directory is
    in use until the last of the processes has ended.

    Args:
        prefix: How the names of all directories of this purpose begin, and of no others.
        parent: Where to make it; None for the default of the system.

    Raises:
        OSError: It cannot be made.
    """
    place = parent or tempfile.gettempdir()
    for abandoned_one in abandoned(prefix, Path(place)):
        shutil.rmtree(abandoned_one, ignore_errors=True)
    for attempts_left in reversed(range(ATTEMPTS)):
        directory = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        try:
            _lock(directory)
            break
        except OSError:  # another process has just removed it: it was not locked yet
            if not attempts_left:
                raise
    atexit.register(_remove_own, directory, os.getpid())
    return directory


def _lock(directory: Path) -> int:
    """Mark a directory as in use by this process and those that it forks, until the last of them ends.

    Returns:
        The file that is open while it is in use.

    Raises:
        OSError: It does not exist any more, or others use it.
    """
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        directory.stat()
    except OSError:
        os.close(file)
        raise
    return file


def abandoned(prefix: str, parent: Path) -> Iterator[Path]:
    """Yield the directories of a purpose whose processes have ended; each is locked until the next one."""
    for directory in parent.glob(f"{prefix}*"):
        try:
            file = _lock(directory)
        except OSError:
            continue
        try:
            yield directory
        finally:
            os.close(file)


def _remove_own(directory: Path, process: int) -> None:
    if os.getpid() == process:  # not in a worker, which has inherited the duty
        shutil.rmtree(directory, ignore_errors=True)
