"""Writing files in one step. Only their owner can read pages: they name hosts and projects."""

import errno
import os
from pathlib import Path
import tempfile


def write(path: str | Path, text: str, mode: int = 0o600) -> None:
    """Write a text to a new file with a name that nobody can guess.

    It takes the place of a file of that name; links and devices are left alone.

    Raises:
        OSError: It cannot be written.
    """
    file = Path(path)
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise FileExistsError(errno.EEXIST, "It is no regular file", str(path))
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    new = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as written:
            written.write(text)
            os.fchmod(written.fileno(), mode)
        new.replace(file)
    except BaseException:
        new.unlink()
        raise
