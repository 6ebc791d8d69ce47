"""berth-plan: what would happen if; nothing is changed.

Exit status: 0 every instance finds a place, 3 some do not, 255 no plan could be made.
"""

import sys
from typing import Any

from cliff.commandmanager import CommandManager

from scheduler.cmd import operator_app

DESCRIPTION = "Plans with the scheduler's own rules on a snapshot of the cloud; nothing is changed."


def commands() -> CommandManager:
    """Return the commands of berth-plan."""
    from scheduler.cmd import plan_commands, plan_requests

    manager = CommandManager()
    manager.add_command("drain", plan_commands.Drain)
    manager.add_command("survive", plan_commands.Survive)
    manager.add_command("balance", plan_commands.Balance)
    manager.add_command("policy", plan_commands.Policy)
    manager.add_command("capacity", plan_requests.Capacity)
    manager.add_command("dry-run", plan_requests.DryRun)
    return manager


def main(argv: list[str] | None = None, **streams: Any) -> int:
    """Run a command and return its exit status. ``argv`` is the command line without the program's name."""
    return operator_app.run("berth-plan", DESCRIPTION, commands, argv, **streams)


if __name__ == "__main__":
    sys.exit(main())
