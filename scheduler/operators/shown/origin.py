"""Where something that is shown comes from: its time, the cloud, the version of Berth and the options."""

from datetime import UTC, datetime
from pathlib import PurePath
import shlex
from typing import Any, NamedTuple

from oslo_config import cfg
import sqlalchemy as sa

from scheduler.version import version


class Origin(NamedTuple):
    """What all formats name.

    Attributes:
        time: In ISO format, in UTC.
        command: The words of the command, without those on its output.
    """

    time: str
    cloud: str
    version: str
    command: tuple[str, ...]

    def __str__(self) -> str:
        time = f"{self.time[:19].replace('T', ' ')} UTC"
        return ", ".join(filter(None, (time, self.cloud, f"Berth {self.version}"))) + (
            f": {shlex.join(self.command)}" if self.command else ""
        )

    def values(self) -> dict[str, Any]:
        return {**self._asdict(), "command": list(self.command)}


def origin(conf: cfg.ConfigOpts, command: tuple[str, ...]) -> Origin:
    """Return the origin of what is shown as of now."""
    return Origin(datetime.now(UTC).isoformat(timespec="seconds"), cloud(conf), version(), command)


def cloud(conf: cfg.ConfigOpts) -> str:
    """Return the region, or name and host of the API database; "" if neither is known."""
    if region := conf.placement.region_name:
        return f"region {region}"
    try:
        url = sa.make_url(conf.api_database.connection or "")
    except sa.exc.ArgumentError:
        return ""
    # of sqlite it is a path
    name = PurePath(url.database or "").name
    return f"database {name}" + (f" on {url.host}" if url.host else "") if name else ""
