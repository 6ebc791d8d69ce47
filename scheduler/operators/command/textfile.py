"""Files for the textfile collector of node-exporter."""

from pathlib import Path


def write(path: str, content: str) -> None:
    """Write metrics to a file that everyone can read, in one step.

    Raises:
        OSError: It cannot be written.
    """
    new = Path(f"{path}.new")
    new.write_text(content)
    new.chmod(0o644)
    new.replace(path)
