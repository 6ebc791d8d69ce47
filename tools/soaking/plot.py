"""The plot of a soak run, from its samples."""

from collections.abc import Sequence
from pathlib import Path

from tools.soaking.samples import Sample

_PANELS = (
    ("memory_mb", "memory (MiB)"),
    ("threads", "threads"),
    ("descriptors", "file descriptors"),
    ("connections", "TCP connections"),
)


def draw(path: Path, samples: Sequence[Sample]) -> None:
    """Write a PNG file with one panel for each measure, over the number of requests.

    matplotlib has to be installed.
    """
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    requests = [sample.requests for sample in samples]
    figure, panels = plt.subplots(len(_PANELS), sharex=True, figsize=(8, 8), layout="constrained")
    for panel, (name, label) in zip(panels, _PANELS, strict=True):
        panel.plot(requests, [getattr(sample, name) for sample in samples], linewidth=1)
        panel.set_ylabel(label)
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
    panels[-1].set_xlabel("requests")
    figure.savefig(path, dpi=80)
    plt.close(figure)
