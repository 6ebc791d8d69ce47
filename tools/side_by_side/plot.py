"""The plots of a comparison. matplotlib has to be installed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tools.side_by_side.contenders import BERTH, NOVA
from tools.side_by_side.measuring import SINGLE, Result

_COLOURS = {NOVA: "#888888", BERTH: "#d62728", "Berth, 3 daemons": "#ff7f0e"}
_PANELS: Sequence[tuple[str, Callable[[Result], float]]] = (
    ("instances per second", lambda result: result.throughput),
    ("95th percentile of the answers (s)", lambda result: result.p95 / 1000),
)


def draw_callers(path: Path, results: Sequence[Result]) -> None:
    """Draw throughput and 95th percentile over the number of callers, the range of the rounds around them."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    singles = [each for each in results if each.case == SINGLE]
    callers = sorted({each.callers for each in singles})
    for panel, (label, value) in zip(panels, _PANELS, strict=True):
        for scheduler in dict.fromkeys(each.scheduler for each in singles):
            _draw_line(panel, [each for each in singles if each.scheduler == scheduler], value)
        panel.set(xscale="log", yscale="log", xlabel="callers", ylabel=label)
        panel.set_xticks(callers, [str(number) for number in callers], minor=False)
        panel.minorticks_off()
        panel.yaxis.set_major_formatter(lambda value, _position: f"{value:g}")
        panel.grid(alpha=0.3)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(f"{results[0].hosts:,} hosts, {len({each.round for each in results})} rounds")
    figure.savefig(path, dpi=80)
    plt.close(figure)


def _draw_line(panel: Any, results: Sequence[Result], value: Callable[[Result], float]) -> None:
    values = {
        callers: [value(each) for each in results if each.callers == callers and each.instances]
        for callers in sorted({each.callers for each in results})
    }
    known = {callers: found for callers, found in values.items() if found}
    colour = _COLOURS.get(results[0].scheduler)
    callers = list(known)
    low, middle, high = (list(map(each, known.values())) for each in (min, median, max))
    panel.plot(callers, middle, marker="o", color=colour, label=results[0].scheduler)
    panel.fill_between(callers, low, high, color=colour, alpha=0.15)
