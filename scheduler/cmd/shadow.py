"""berth-shadow: decides copies of nova-scheduler's requests, and reports how the decisions compare.

Exit status of run: 0 after SIGTERM or SIGINT, 1 if it cannot start. Of report: 0; 1 if there is nothing to
report.
"""

import sys
from typing import Any

from scheduler.cmd import operator_app


def commands() -> operator_app.Commands:
    from scheduler.cmd import shadow_commands

    return {
        "run": shadow_commands.RunCommand,
        "report": shadow_commands.ReportCommand,
    }


def main(argv: list[str] | None = None, **streams: Any) -> int:
    """Run a command and return its exit status. ``argv`` is the command line without the program's name."""
    return operator_app.run(
        "berth-shadow",
        "Decide copies of nova-scheduler's requests, and compare the decisions.",
        commands,
        argv,
        **streams,
    )


if __name__ == "__main__":
    sys.exit(main())
