"""The files of a report, which take the place of those of the report before."""

from collections.abc import Callable, Iterable, Iterator
import contextlib
import errno
import fcntl
from hashlib import blake2b
import os
from pathlib import Path
import re

from scheduler.operators.shown.files import write

#: The page that is written last, as it refers to the others.
INDEX = "index.html"

#: The names of the others, and those of files that a run has left which was killed.
_OWN = re.compile(r"(?:decision-[0-9a-f]{16}|hosts-\d{4,})\.html")
_UNFINISHED = re.compile(rf"\.(?:index\.html|{_OWN.pattern})\.\w{{8}}")

#: What each page has among its first bytes.
_GENERATOR = b'<meta name="generator" content="Berth">'
_HEAD = 2000


def decision_file(name: str) -> str:
    """Return the file of a decision by the name of the decision: the same in each report."""
    return f"decision-{blake2b(name.encode(), digest_size=8).hexdigest()}.html"


def hosts_file(number: int) -> str:
    return f"hosts-{number:04}.html"


def replace(directory: Path, index: Callable[[], str], pages: Iterable[tuple[str, str]]) -> int:
    """Write the pages of a report in the place of those of the report before; return the number of pages.

    Each page replaces an old one in one step, the index comes after those that it names, and pages that are
    no longer named are removed last: readers see whole pages at any time. Other files are left alone.

    Args:
        directory: Made for its owner alone if it does not exist.
        index: Makes the index.
        pages: Names and texts of the other pages.

    Raises:
        OSError: A page cannot be written, the index of something else is there, or another report is being
            written.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(directory):
        if (directory / INDEX).exists() and not _is_ours(directory / INDEX):
            raise FileExistsError(errno.EEXIST, "It has the index of something else", str(directory))
        written = set()
        for name, html in pages:
            write(directory / name, html)
            written.add(name)
        write(directory / INDEX, index())
        for file in list(directory.iterdir()):
            stale = _OWN.fullmatch(file.name) and file.name not in written and _is_ours(file)
            if stale or _UNFINISHED.fullmatch(file.name):
                file.unlink()
    return len(written) + 1


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        text = "Another report is being written to it"
        raise BlockingIOError(errno.EAGAIN, text, str(directory)) from error
    finally:
        os.close(descriptor)


def _is_ours(file: Path) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    with file.open("rb") as opened:
        return _GENERATOR in opened.read(_HEAD)
