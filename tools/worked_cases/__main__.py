"""Make the builds of the worked cases fail, and write what berth-explain says to the documentation."""

import argparse
from pathlib import Path
import sys
import tempfile

from oslo_service import backend

DIRECTORY = Path(__file__).resolve().parents[2] / "doc" / "source" / "cases"


def main(argv: list[str] | None = None) -> int:
    """Write the cases to files; return the exit status."""
    parser = argparse.ArgumentParser(prog="tools/worked-cases", description=__doc__)
    parser.add_argument(
        "directory",
        type=Path,
        nargs="?",
        default=DIRECTORY,
        help="where the files are (default: %(default)s)",
    )
    arguments = parser.parse_args(argv)
    # Select the backend before oslo.messaging is imported, which would select eventlet.
    backend.init_backend(backend.BackendType.THREADING)
    from tools.rig import servers
    from tools.worked_cases import cases, plans

    with tempfile.TemporaryDirectory(prefix="berth-cases-") as directory, servers.rabbitmq() as rabbit:
        found = cases.run(Path(directory), rabbit.vhost())
    for name, text in found.items():
        (arguments.directory / f"{name}.txt").write_text(text)
    plans.write(arguments.directory.parent / plans.DIRECTORY.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
