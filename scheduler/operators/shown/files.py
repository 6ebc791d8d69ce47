"""Writing files in one step: pages, which only their owner can read, and metrics. What all formats name."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
import errno
import os
from pathlib import Path, PurePath
import shlex
import tempfile
from typing import Any, NamedTuple

from oslo_config import cfg
from prometheus_client import CollectorRegistry, Gauge, generate_latest
import sqlalchemy as sa

from scheduler.version import version


def checked(path: str | Path) -> Path:
    """Return the path of a file that can be written; raises as ``write``."""
    file = Path(path)
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise FileExistsError(errno.EEXIST, "It is no regular file", str(path))
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "Its directory cannot be written", str(path))
    return file


def write(path: str | Path, text: str, mode: int = 0o600, *, durable: bool = False) -> None:
    """Write a text to a new file with a name that nobody can guess.

    It takes the place of a file of that name; links and devices are left alone.

    Args:
        durable: Return only when file and name are on disk.

    Raises:
        OSError: It cannot be written.
    """
    file = checked(path)
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    new = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as written:
            written.write(text)
            os.fchmod(written.fileno(), mode)
            if durable:
                written.flush()
                os.fsync(written.fileno())
        new.replace(file)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    if durable:
        directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


class Measured(NamedTuple):
    """A metric with the values of its labels.

    Attributes:
        values: By tuples with the values of the labels, in their order.
    """

    name: str
    words: str
    labels: tuple[str, ...]
    values: Mapping[Any, float]


def metrics_text(metrics: Iterable[Measured]) -> str:
    """Return metrics in the text format of Prometheus."""
    registry = CollectorRegistry()
    for metric in metrics:
        gauge = Gauge(metric.name, metric.words, metric.labels, registry=registry)
        for labels, value in metric.values.items():
            (gauge.labels(*labels) if labels else gauge).set(value)
    return generate_latest(registry).decode()


def write_metrics(path: str, metrics: Iterable[Measured]) -> None:
    """Write metrics for the textfile collector of node-exporter, that all may read; raises as ``write``."""
    write(path, metrics_text(metrics), mode=0o644)


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
