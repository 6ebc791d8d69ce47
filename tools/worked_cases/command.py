"""Make the builds of the worked cases fail, make plans, and write what is printed to the documentation."""

from pathlib import Path

from tools.rig import command
from tools.rig.service import ROOT
from tools.worked_cases import cases, plans

DIRECTORY = ROOT / "doc" / "source" / "cases"


def main(arguments: list[str] | None = None) -> int:
    """Write the cases and the plans to files."""
    parser = command.Parser("tools/berth worked-cases", __doc__)
    parser.add(
        "directory", DIRECTORY, "where the files of the cases are; those of plans are beside it", nargs="?"
    )
    target: Path = parser.parse_args(arguments).directory
    with command.running("cases") as directory:
        found = cases.run(directory)
        for name, text in found.items():
            (target / f"{name}.txt").write_text(text)
        plans.write(directory / "plans", target.parent / plans.DIRECTORY.name)
    return 0
