"""berth-explain: why was this host chosen, and why was no host found?

Exit status: 0 answered, 1 there is no such decision or host, 255 it could not be asked.
"""

import sys
from typing import Any

from cliff.commandmanager import CommandManager

from scheduler.cmd import operator_app

DESCRIPTION = "Explains the decisions of the schedulers."


def commands() -> CommandManager:
    """Return the commands of berth-explain."""
    from scheduler.cmd import explain_decisions, explain_host, explain_report

    manager = CommandManager()
    manager.add_command("decision", explain_decisions.DecisionCommand)
    manager.add_command("host", explain_host.Host)
    manager.add_command("list", explain_decisions.ListDecisions)
    manager.add_command("report", explain_report.ReportCommand)
    return manager


def main(argv: list[str] | None = None, **streams: Any) -> int:
    """Run a command and return its exit status. ``argv`` is the command line without the program's name."""
    return operator_app.run("berth-explain", DESCRIPTION, commands, argv, **streams)


if __name__ == "__main__":
    sys.exit(main())
