"""What the processes of a scheduler occupy, measured from outside, and the file that keeps it."""

from collections.abc import Iterable
import csv
import dataclasses
from pathlib import Path
from typing import Self

import psutil


@dataclasses.dataclass(frozen=True)
class Sample:
    """One measurement over all processes of the scheduler.

    Attributes:
        requests: Requests that had ended.
        seconds: Time since the first request.
        memory_mb: Memory in MiB: of each process the part that it shares with no other (USS).
        threads: Number of threads.
        descriptors: Number of open file descriptors.
        connections: Number of open TCP connections.
    """

    requests: int
    seconds: float
    memory_mb: float
    threads: int
    descriptors: int
    connections: int

    @classmethod
    def take(cls, pid: int, requests: int, seconds: float) -> Self:
        """Measure a process and all its children.

        Raises:
            psutil.Error: A process has ended.
        """
        master = psutil.Process(pid)
        processes = [master, *master.children(recursive=True)]
        return cls(
            requests=requests,
            seconds=round(seconds, 1),
            memory_mb=round(sum(each.memory_full_info().uss for each in processes) / 2**20, 2),
            threads=sum(each.num_threads() for each in processes),
            descriptors=sum(each.num_fds() for each in processes),
            connections=sum(len(each.net_connections("tcp")) for each in processes),
        )


#: What is judged: the fields of a sample that must not grow.
MEASURES = ("memory_mb", "threads", "descriptors", "connections")

_FIELDS = {field.name: field.type for field in dataclasses.fields(Sample)}


def write(path: Path, samples: Iterable[Sample]) -> None:
    """Write samples to a CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, _FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(dataclasses.asdict, samples))


def read(path: Path) -> list[Sample]:
    """Return the samples in a CSV file."""
    with path.open(newline="") as file:
        return [
            Sample(**{name: _FIELDS[name](text) for name, text in row.items()})
            for row in csv.DictReader(file)
        ]
