"""berth-shadow: decides copies of nova-scheduler's requests, and reports how the decisions compare.

Exit status of run: 0 after SIGTERM or SIGINT, 1 if it cannot start. Of report: 0; 1 if there is nothing to
report.
"""

import sys
from typing import Any

from cliff.commandmanager import CommandManager

from scheduler.cmd import operator_app

DESCRIPTION = "Decides what nova-scheduler decides, in its shadow, and compares."


def commands() -> CommandManager:
    """Return the commands of berth-shadow."""
    from scheduler.cmd import shadow_commands

    manager = CommandManager()
    manager.add_command("run", shadow_commands.RunCommand)
    manager.add_command("report", shadow_commands.ReportCommand)
    return manager


def main(argv: list[str] | None = None, **streams: Any) -> int:
    """Run a command and return its exit status. ``argv`` is the command line without the program's name."""
    return operator_app.run("berth-shadow", DESCRIPTION, commands, argv, **streams)


if __name__ == "__main__":
    sys.exit(main())
