"""The picture of a comparison."""

from collections.abc import Sequence
from pathlib import Path

from tools.rig.plot import pyplot
from tools.strategies.run import Result

_PANELS = (
    ("refused", "refused claims\nper instance"),
    ("overlapping", "overlapping claims\nper instance"),
    ("hosts_used", "hosts that got\nan instance"),
)


def draw(path: Path, results: Sequence[Result]) -> None:
    """Write a PNG file: a panel for each measure, a group of bars for each strategy.

    matplotlib has to be installed.
    """
    plt = pyplot()
    scenarios = list(dict.fromkeys(result.scenario for result in results))
    strategies = list(dict.fromkeys(result.strategy for result in results))
    width = 0.8 / len(scenarios)
    figure, panels = plt.subplots(len(_PANELS), sharex=True, figsize=(10, 9), layout="constrained")
    for panel, (name, label) in zip(panels, _PANELS, strict=True):
        for number, scenario in enumerate(scenarios):
            values = {each.strategy: getattr(each, name) for each in results if each.scenario == scenario}
            places = [place + (number - (len(scenarios) - 1) / 2) * width for place in range(len(strategies))]
            panel.bar(places, [values.get(each, 0) for each in strategies], width, label=scenario)
        panel.set_ylabel(label)
        panel.grid(axis="y", alpha=0.3)
        if name != "hosts_used":
            panel.set_yscale("symlog", linthresh=0.1)
            panel.set_ylim(bottom=0)
    panels[0].legend(ncols=2)
    panels[-1].set_xticks(range(len(strategies)), strategies, rotation=30, ha="right")
    figure.savefig(path, dpi=80)
    plt.close(figure)
