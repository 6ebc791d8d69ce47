"""Writing files in one step: pages, which only their owner can read, and metrics."""

from collections.abc import Iterable, Mapping
import errno
import os
from pathlib import Path
import tempfile
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Gauge, generate_latest


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
