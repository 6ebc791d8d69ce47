"""Files for the textfile collector of node-exporter."""

from scheduler.operators.shown import files


def write(path: str, content: str) -> None:
    """Write metrics to a file that everyone can read; raises as ``files.write``."""
    files.write(path, content, mode=0o644)
