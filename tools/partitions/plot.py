"""The plot of runs: how many instances had hosts and were built, over time."""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from tools.partitions.results import Result
from tools.rig.plot import pyplot, save


def draw(path: Path, results: Sequence[Result]) -> None:
    """Draw a panel for each result, with the times at which schedulers were killed."""
    plt = pyplot()
    figure, panels = plt.subplots(
        1, len(results), figsize=(5 * len(results), 3.8), layout="constrained", sharey=True, squeeze=False
    )
    for panel, result in zip(panels[0], results, strict=True):
        _draw(panel, result)
    panels[0][0].set_ylabel("instances")
    panels[0][0].legend(loc="lower right", frameon=False)
    save(figure, path)


def _draw(panel: Any, result: Result) -> None:
    for label, counts in (("with a host", result.answers), ("built", result.builds)):
        panel.plot(range(len(counts) + 1), [0, *accumulate(counts)], label=label)
    for number, (_names, at, back) in enumerate(result.kills):
        panel.axvline(at, color="#d62728", linestyle="--", label="schedulers killed" if not number else None)
        panel.axvspan(at, back, color="#d62728", alpha=0.1)
    panel.set(xlabel="seconds", title=f"{sum(result.hosts.values()):,} hosts")
    panel.grid(alpha=0.3)
