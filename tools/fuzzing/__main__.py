"""The command line of a fuzzing campaign."""

import argparse
import sys
import tempfile

from tools.fuzzing import corpus
from tools.fuzzing.campaign import Campaign, Report
from tools.fuzzing.targets import TARGETS
from tools.fuzzing.world import World


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign and print what it found; return 1 if it found anything."""
    parser = argparse.ArgumentParser(
        prog="tools/fuzz", description="Mutated input by seed, and what comes of it"
    )
    parser.add_argument("--seed", type=int, default=1, help="determines all mutations (default: %(default)s)")
    parser.add_argument(
        "--count", type=int, default=10_000, help="number of mutations (default: %(default)s)"
    )
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="end after this time at the latest"
    )
    parser.add_argument("--target", choices=TARGETS, action="append", help="only this one; may be repeated")
    parser.add_argument(
        "--keep", action="store_true", help="save each failing input, made small, in the corpus"
    )
    options = parser.parse_args(arguments)
    targets = [TARGETS[name] for name in options.target or TARGETS]
    with tempfile.TemporaryDirectory(prefix="berth-fuzz-") as directory, World(directory) as world:
        campaign = Campaign(world, targets, options.seed)
        campaign.replay_corpus()
        report = campaign.run(options.count, options.minutes)
    _print(report)
    if options.keep:
        for finding in report.findings.values():
            print(f"kept as {corpus.save(finding.target, finding.value)}")
    return 1 if report.findings or report.grown else 0


def _print(report: Report) -> None:
    for target, done in report.done.items():
        print(f"{target}: {done} inputs, the slowest took {report.slowest[target]:.2f} s of CPU time")
        for (name, ending), count in report.outcomes.most_common():
            if name == target:
                print(f"    {count:7}  {ending}")
    for finding in report.findings.values():
        problem = finding.problem
        print(f"FOUND {finding.target} ({finding.count}): {problem.kind}\n    {problem.detail!r}")
        print(f"    input: {corpus.abbreviated(finding.value)!r:.1500}")
    for line in report.grown:
        print(f"GREW {line}")
    print(
        f"{report.done.total()} inputs, {len(report.findings)} findings, {len(report.grown)} containers grew"
    )


if __name__ == "__main__":
    sys.exit(main())
