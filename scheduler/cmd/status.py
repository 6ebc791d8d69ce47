"""berth-status: checks of a deployment."""

import sys

from cliff.commandmanager import CommandManager

from scheduler.cmd import operator_app
from scheduler.cmd.operator_app import NOT_RUN

__all__ = ["NOT_RUN", "commands", "main"]


def commands() -> CommandManager:
    """Return the commands of berth-status."""
    from scheduler.cmd.audit import AuditCommand
    from scheduler.cmd.upgrade_check import UpgradeCheckCommand

    manager = CommandManager()
    manager.add_command("audit", AuditCommand)
    manager.add_command("upgrade check", UpgradeCheckCommand)
    return manager


def main(argv: list[str] | None = None, **streams) -> int:
    """Run a command and return its exit status. ``argv`` is the command line without the program's name."""
    description = "Checks of a deployment."
    return operator_app.run("berth-status", description, commands, argv, **streams)


if __name__ == "__main__":
    sys.exit(main())
