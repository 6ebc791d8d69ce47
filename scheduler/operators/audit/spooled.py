"""What schedulers have in their spools: instances that may hold a host that no caller knows."""

from pathlib import Path

from oslo_log import log as logging

from scheduler.claims.spool import Entry
from scheduler.claims.spool_file import SUFFIX, read_lines

LOG = logging.getLogger(f"nova.{__name__}")


def spooled(directory: Path | None) -> dict[str, Entry]:
    """Return the entries in the spool files of a directory, by consumer.

    The files are read as they are now, and never changed. What cannot be read is logged and left out.

    Args:
        directory: Where the schedulers of this machine have them; None: nowhere.
    """
    found: dict[str, Entry] = {}
    for path in sorted(directory.glob(f"*{SUFFIX}")) if directory else ():
        try:
            found |= {line.consumer: Entry.of_line(line) for line in read_lines(path)}
        except (OSError, ValueError) as error:
            LOG.error("Cannot read spool file %s: %s", path, error)
    return found
