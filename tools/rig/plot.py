"""Drawing into files. matplotlib has to be installed."""

from pathlib import Path
from typing import Any


def pyplot() -> Any:
    """Return matplotlib's pyplot for drawing into files."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    return plt


def save(figure: Any, path: Path) -> None:
    """Write a figure to a file and close it."""
    figure.savefig(path, dpi=80)
    pyplot().close(figure)
