"""Feed hostile input, drawn by hypothesis, to the scheduler: what is answered, logged and kept."""

import math

from hypothesis.database import DirectoryBasedExampleDatabase

from tools.fuzzing import corpus
from tools.fuzzing.campaign import Campaign, Report
from tools.fuzzing.targets import TARGETS
from tools.fuzzing.world import World
from tools.rig import command


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign and print what it found; return 1 if it found anything."""
    parser = command.Parser("tools/fuzz", __doc__)
    parser.share(seed=1, minutes=math.inf)
    parser.add("--count", 10_000, "number of inputs")
    parser.add("--target", None, "only this one; may be repeated", choices=TARGETS, action="append")
    parser.add("--database", corpus.DATABASE, "where inputs that failed are kept, and tried first")
    options = parser.parse_args(arguments)
    targets = [TARGETS[name] for name in options.target or TARGETS]
    with command.running("fuzz") as directory, World(directory) as world:
        campaign = Campaign(world, targets, options.seed, DirectoryBasedExampleDatabase(options.database))
        campaign.replay_corpus()
        report = campaign.run(options.count, options.minutes)
    _print(report)
    return 1 if report.findings or report.grown else 0


def _print(report: Report) -> None:
    for target, done in report.done.items():
        print(f"{target}: {done} inputs, the slowest took {report.slowest[target]:.2f} s of CPU time")
        for (name, ending), count in report.outcomes.most_common():
            if name == target:
                print(f"    {count:7}  {ending}")
    for (target, kind), (problem, value) in report.findings.items():
        print(f"FOUND {target}: {kind}\n    {problem.detail!r}\n    input: {value!r:.1500}")
    for line in report.grown:
        print(f"GREW {line}")
    print(
        f"{report.done.total()} inputs, {len(report.findings)} findings, {len(report.grown)} containers grew"
    )
