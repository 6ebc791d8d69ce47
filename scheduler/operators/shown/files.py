"""Writing pages to files that only their owner can read: they name hosts and projects."""

import errno
import os
from pathlib import Path
import tempfile


def write(path: str | Path, html: str) -> None:
    """Write a page to a new file.

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
            written.write(html)
        new.replace(file)
    except BaseException:
        new.unlink()
        raise
